//! Which fields each mapping of the file has, in one place: those that are read, and those of the design that come later.
//! Refuses nothing itself; `report` compares what is written with it.

/// The fields of one kind of mapping.
#[derive(Debug)]
pub struct Shape {
    /// The path of such a mapping, for hints; empty for the whole file.
    pub path: &'static str,
    /// Read now.
    pub fields: &'static [&'static str],
    /// Not supported yet.
    pub later: &'static [&'static str],
}

macro_rules! shapes {
    ($($name:ident = $path:literal { $($field:ident)* } later { $($later:ident)* })*) => {
        $(
            #[doc = concat!("`", $path, "`")]
            pub static $name: Shape = Shape {
                path: $path,
                fields: &[$(stringify!($field)),*],
                later: &[$(stringify!($later)),*],
            };
        )*
        /// Every shape.
        pub static ALL: &[&Shape] = &[$(&$name),*];
    };
}

shapes! {
    FILE = "" {
        listen listeners workers metrics admin state accessLog fastPath trust routes services analysisTemplates concurrentRollouts
        notify outbound tracing
    } later { fleet }
    NOTIFY = "notify[]" { slack webhook format secret events } later {}
    LISTENER = "listeners[]" { name listen http proxyProtocol tls limits } later {}
    LISTENER_TLS = "listeners[].tls" { certificates clientCa } later {}
    CERTIFICATE = "listeners[].tls.certificates[]" { cert key } later {}
    LIMITS = "listeners[].limits" { headerBytes headers headerTimeout bodyTimeout idleTimeout connections h2Streams } later {}
    METRICS = "metrics" { listen compat } later {}
    ADMIN = "admin" { listen readToken writeToken } later {}
    STATE = "state" { dir maxAge } later {}
    ACCESS_LOG = "accessLog" { format sampleSuccess } later {}
    TRACING = "tracing" { otlp sample headers } later {}
    TRUST = "trust" { forwardedFrom } later {}
    OUTBOUND = "outbound" { allow } later {}
    ROUTE = "routes[]" { name match filters timeouts retry service } later {}
    RETRY = "routes[].retry" { retries conditions statuses budget } later {}
    MATCH = "routes[].match[]" { scheme host path method headers query } later {}
    MATCH_PATH = "routes[].match[].path" { exact prefix regex } later {}
    MATCH_FIELD = "routes[].match[].headers[]" { name exact prefix regex } later {}
    MATCH_PARAMETER = "routes[].match[].query[]" { name exact prefix regex } later {}
    FILTERS = "routes[].filters" { requestHeaders responseHeaders rewrite redirect cors mirror } later {}
    HEADER_EDITS = "routes[].filters.requestHeaders" { set add remove } later {}
    REWRITE = "routes[].filters.rewrite" { host path } later {}
    PATH_CHANGE = "routes[].filters.rewrite.path" { full prefix } later {}
    REDIRECT = "routes[].filters.redirect" { scheme host port path status } later {}
    CORS = "routes[].filters.cors" { origins methods headers exposeHeaders credentials maxAge } later {}
    MIRROR = "routes[].filters.mirror" { service percentage methods } later {}
    TIMEOUTS = "routes[].timeouts" { request attempt idle upgraded } later {}
    SERVICE = "services.<name>" {
        versions stable canary revision assign rescue deadCanary countAsError steps hold abortWhen strategy gates
    } later {}
    GATE = "services.<name>.gates[]" { name type url timeout headers metadata } later {}
    RESCUE = "services.<name>.rescue" { methods conditions } later {}
    COUNT_AS_ERROR = "services.<name>.countAsError" { statuses grpc } later {}
    VERSION = "services.<name>.versions.<name>" {
        endpoints http tls loadBalancing slowStart limits filters health ejection
    } later {}
    HEALTH = "services.<name>.versions.<name>.health" { path interval timeout healthy unhealthy } later {}
    EJECTION = "services.<name>.versions.<name>.ejection" { consecutiveErrors base maxShare } later {}
    UPSTREAM_TLS = "services.<name>.versions.<name>.tls" { ca sni cert key } later {}
    UPSTREAM_LIMITS = "services.<name>.versions.<name>.limits" { connections pending } later {}
    VERSION_FILTERS = "services.<name>.versions.<name>.filters" { requestHeaders responseHeaders } later {}
    ASSIGN = "services.<name>.assign" { force cohorts sticky } later {}
    FORCE = "services.<name>.assign.force" { header cookie from secret } later {}
    COHORT = "services.<name>.assign.cohorts[]" { header values to } later {}
    STICKY = "services.<name>.assign.sticky" { by name ttl } later {}
    ABORT_WHEN = "services.<name>.abortWhen" { errorRate p50 p75 p90 p95 p99 p999 } later {}
    STRATEGY = "services.<name>.strategy" { canary blueGreen } later {}
    BLUE_GREEN = "services.<name>.strategy.blueGreen" {
        autoPromotionEnabled autoPromotionSeconds prePromotionAnalysis postPromotionAnalysis scaleDownDelaySeconds
        abortScaleDownDelaySeconds preview
    } later {}
    CANARY = "services.<name>.strategy.canary" {
        maxTrafficWeight steps guard onNoTraffic noTrafficFor deadline bake abort scaleDownDelay rollbackWindow windows
        promoteEarly analysis drainTimeout minHealthy
    } later {}
    PROMOTE_EARLY = "services.<name>.strategy.canary.promoteEarly" { alpha blastRadius } later {}
    BAKE = "services.<name>.strategy.canary.bake" { duration weight } later {}
    ABORT = "services.<name>.strategy.canary.abort" { ramp capacityGuard scaleDownDelay } later {}
    CAPACITY_GUARD = "services.<name>.strategy.canary.abort.capacityGuard" { minHealthy deadline } later {}
    WINDOW = "services.<name>.strategy.canary.windows[]" { days from to zone } later {}
    STEP = "services.<name>.strategy.canary.steps[]" { setWeight setHeaderRoute setMirrorRoute pause analysis experiment }
        later {}
    EXPERIMENT = "services.<name>.strategy.canary.steps[].experiment" { duration templates analyses dryRun } later {}
    EXPERIMENT_ARM = "services.<name>.strategy.canary.steps[].experiment.templates[]" { name version weight } later {}
    EXPERIMENT_ANALYSIS = "services.<name>.strategy.canary.steps[].experiment.analyses[]" {
        name templateName args requiredForCompletion
    } later {}
    HEADER_ROUTE = "services.<name>.strategy.canary.steps[].setHeaderRoute" { name match all } later {}
    HEADER_ROUTE_MATCH = "services.<name>.strategy.canary.steps[].setHeaderRoute.match[]" { headerName headerValue } later {}
    HEADER_VALUE = "services.<name>.strategy.canary.steps[].setHeaderRoute.match[].headerValue" { exact prefix regex } later {}
    MIRROR_ROUTE = "services.<name>.strategy.canary.steps[].setMirrorRoute" { name percentage match } later {}
    MIRROR_ROUTE_MATCH = "services.<name>.strategy.canary.steps[].setMirrorRoute.match[]" { method path headers } later {}
    MIRROR_VALUE = "services.<name>.strategy.canary.steps[].setMirrorRoute.match[].path" { exact prefix regex } later {}
    PREVIEW = "services.<name>.strategy.blueGreen.preview" { header } later {}
    PREVIEW_HEADER = "services.<name>.strategy.blueGreen.preview.header" { name exact prefix regex } later {}
    PAUSE = "services.<name>.strategy.canary.steps[].pause" { duration requests } later {}
    BACKGROUND = "services.<name>.strategy.canary.analysis" { templates args dryRun measurementRetention startingStep } later {}
    ANALYSIS = "services.<name>.strategy.canary.steps[].analysis" { templates args dryRun measurementRetention }
        later {}
    TEMPLATE_REF = "services.<name>.strategy.canary.steps[].analysis.templates[]" { templateName } later {}
    ARG = "services.<name>.strategy.canary.steps[].analysis.args[]" { name value valueFrom } later {}
    VALUE_FROM = "services.<name>.strategy.canary.steps[].analysis.args[].valueFrom" { env file podTemplateHashValue }
        later { secretKeyRef fieldRef }
    DRY_RUN = "analysisTemplates.<name>.dryRun[]" { metricName } later {}
    RETENTION = "analysisTemplates.<name>.measurementRetention[]" { metricName limit } later {}
    GUARD = "services.<name>.strategy.canary.guard" { errorRate latency versusStable consecutiveErrors warmup onFailure }
        later {}
    WARMUP = "services.<name>.strategy.canary.guard.warmup" { errors latency } later {}
    ERROR_RATE = "services.<name>.strategy.canary.guard.errorRate" { max window minRequests } later {}
    LATENCY = "services.<name>.strategy.canary.guard.latency[]" { quantile max window minRequests } later {}
    VERSUS_STABLE = "services.<name>.strategy.canary.guard.versusStable" { alpha errors latency minBadSeconds } later {}
    TOLERANCE = "services.<name>.strategy.canary.guard.versusStable.errors" { relative absolute } later {}
    LATENCY_TOLERANCE = "services.<name>.strategy.canary.guard.versusStable.latency" { relative absolute } later {}
    TEMPLATE = "analysisTemplates.<name>" { args metrics templates dryRun measurementRetention ttlStrategy } later {}
    TTL = "analysisTemplates.<name>.ttlStrategy" { secondsAfterCompletion secondsAfterSuccess secondsAfterFailure } later {}
    METRIC = "analysisTemplates.<name>.metrics[]" {
        name interval initialDelay count failureLimit inconclusiveLimit consecutiveErrorLimit consecutiveSuccessLimit consecutiveFailureLimit
        successCondition failureCondition provider
    } later {}
    PROVIDER = "analysisTemplates.<name>.metrics[].provider" {
        serin prometheus web exec datadog newRelic graphite influxdb cloudWatch
    } later { job wavefront skywalking kayenta plugin }
    SERIN = "analysisTemplates.<name>.metrics[].provider.serin" { version window } later {}
    PROMETHEUS = "analysisTemplates.<name>.metrics[].provider.prometheus" {
        address query rangeQuery timeout headers bearerToken basicAuth ca insecure
    } later {}
    RANGE_QUERY = "analysisTemplates.<name>.metrics[].provider.prometheus.rangeQuery" { start end step } later {}
    WEB = "analysisTemplates.<name>.metrics[].provider.web" {
        url method headers body jsonBody jsonPath timeoutSeconds bearerToken basicAuth ca insecure
    } later {}
    EXEC = "analysisTemplates.<name>.metrics[].provider.exec" { command env timeout } later {}
    HEADER = "analysisTemplates.<name>.metrics[].provider.web.headers[]" { key value } later {}
    BASIC_AUTH = "analysisTemplates.<name>.metrics[].provider.web.basicAuth" { username password } later {}
    DATADOG = "analysisTemplates.<name>.metrics[].provider.datadog" {
        address apiKey appKey apiVersion interval query queries formula aggregator timeout
    } later {}
    NEW_RELIC = "analysisTemplates.<name>.metrics[].provider.newRelic" { address apiKey accountId region query timeout } later {}
    GRAPHITE = "analysisTemplates.<name>.metrics[].provider.graphite" {
        address query timeout headers bearerToken basicAuth ca insecure
    } later {}
    INFLUXDB = "analysisTemplates.<name>.metrics[].provider.influxdb" {
        address org authToken query timeout headers ca insecure
    } later {}
    CLOUD_WATCH = "analysisTemplates.<name>.metrics[].provider.cloudWatch" {
        address region accessKeyId secretAccessKey sessionToken interval metricDataQueries timeout
    } later {}
    DATA_QUERY = "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[]" {
        id expression label metricStat period returnData
    } later {}
    METRIC_STAT = "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat" {
        metric period stat unit
    } later {}
    CLOUD_METRIC = "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat.metric" {
        namespace metricName dimensions
    } later {}
    DIMENSION = "analysisTemplates.<name>.metrics[].provider.cloudWatch.metricDataQueries[].metricStat.metric.dimensions[]" {
        name value
    } later {}
}

/// Where else a field of this name belongs.
#[must_use]
pub fn home(field: &str) -> Option<&'static str> {
    let mut homes = ALL.iter().filter(|shape| shape.fields.contains(&field) || shape.later.contains(&field));
    let first = homes.next()?;
    // `name` and the like are at home in too many places for a hint.
    homes.next().is_none().then_some(first.path)
}
