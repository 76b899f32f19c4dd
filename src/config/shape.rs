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
        notify
    } later { tracing fleet }
    NOTIFY = "notify[]" { slack webhook format secret events } later {}
    LISTENER = "listeners[]" { name listen http tls limits } later { proxyProtocol }
    LISTENER_TLS = "listeners[].tls" { certificates clientCa } later {}
    CERTIFICATE = "listeners[].tls.certificates[]" { cert key } later {}
    LIMITS = "listeners[].limits" { headerBytes headers headerTimeout bodyTimeout idleTimeout connections h2Streams } later {}
    METRICS = "metrics" { listen compat } later {}
    ADMIN = "admin" { listen readToken writeToken } later {}
    STATE = "state" { dir maxAge } later {}
    ACCESS_LOG = "accessLog" { format } later { sampleSuccess }
    TRUST = "trust" { forwardedFrom } later {}
    ROUTE = "routes[]" { name match filters timeouts retry service } later {}
    RETRY = "routes[].retry" { retries conditions statuses budget } later {}
    MATCH = "routes[].match[]" { host path method headers query } later {}
    MATCH_PATH = "routes[].match[].path" { exact prefix regex } later {}
    MATCH_FIELD = "routes[].match[].headers[]" { name exact prefix regex } later {}
    MATCH_PARAMETER = "routes[].match[].query[]" { name exact prefix regex } later {}
    FILTERS = "routes[].filters" { requestHeaders responseHeaders rewrite redirect cors } later { mirror }
    HEADER_EDITS = "routes[].filters.requestHeaders" { set add remove } later {}
    REWRITE = "routes[].filters.rewrite" { host path } later {}
    PATH_CHANGE = "routes[].filters.rewrite.path" { full prefix } later {}
    REDIRECT = "routes[].filters.redirect" { scheme host port path status } later {}
    CORS = "routes[].filters.cors" { origins methods headers exposeHeaders credentials maxAge } later {}
    TIMEOUTS = "routes[].timeouts" { request attempt idle upgraded } later {}
    SERVICE = "services.<name>" {
        versions stable canary revision assign rescue deadCanary countAsError steps hold abortWhen strategy
    } later { gates }
    RESCUE = "services.<name>.rescue" { methods conditions } later {}
    COUNT_AS_ERROR = "services.<name>.countAsError" { statuses grpc } later {}
    VERSION = "services.<name>.versions.<name>" { endpoints http filters }
        later { tls loadBalancing health ejection slowStart limits }
    VERSION_FILTERS = "services.<name>.versions.<name>.filters" { requestHeaders responseHeaders } later {}
    ASSIGN = "services.<name>.assign" { force cohorts sticky } later {}
    FORCE = "services.<name>.assign.force" { header cookie from secret } later {}
    COHORT = "services.<name>.assign.cohorts[]" { header values to } later {}
    STICKY = "services.<name>.assign.sticky" { by name ttl } later {}
    ABORT_WHEN = "services.<name>.abortWhen" { errorRate p50 p75 p90 p95 p99 p999 } later {}
    STRATEGY = "services.<name>.strategy" { canary blueGreen } later {}
    BLUE_GREEN = "services.<name>.strategy.blueGreen" {
        autoPromotionEnabled autoPromotionSeconds prePromotionAnalysis postPromotionAnalysis scaleDownDelaySeconds
        preview
    } later {}
    CANARY = "services.<name>.strategy.canary" {
        maxTrafficWeight steps guard onNoTraffic noTrafficFor deadline bake abort scaleDownDelay rollbackWindow windows
        promoteEarly
    } later { analysis drainTimeout }
    PROMOTE_EARLY = "services.<name>.strategy.canary.promoteEarly" { alpha blastRadius } later {}
    BAKE = "services.<name>.strategy.canary.bake" { duration weight } later {}
    ABORT = "services.<name>.strategy.canary.abort" { ramp } later { capacityGuard }
    WINDOW = "services.<name>.strategy.canary.windows[]" { days from to zone } later {}
    STEP = "services.<name>.strategy.canary.steps[]" { setWeight setHeaderRoute pause analysis }
        later { setMirrorRoute experiment }
    HEADER_ROUTE = "services.<name>.strategy.canary.steps[].setHeaderRoute" { name match all } later {}
    HEADER_ROUTE_MATCH = "services.<name>.strategy.canary.steps[].setHeaderRoute.match[]" { headerName headerValue } later {}
    HEADER_VALUE = "services.<name>.strategy.canary.steps[].setHeaderRoute.match[].headerValue" { exact prefix regex } later {}
    PREVIEW = "services.<name>.strategy.blueGreen.preview" { header } later {}
    PREVIEW_HEADER = "services.<name>.strategy.blueGreen.preview.header" { name exact prefix regex } later {}
    PAUSE = "services.<name>.strategy.canary.steps[].pause" { duration requests } later {}
    ANALYSIS = "services.<name>.strategy.canary.steps[].analysis" { templates args } later {}
    TEMPLATE_REF = "services.<name>.strategy.canary.steps[].analysis.templates[]" { templateName } later {}
    ARG = "services.<name>.strategy.canary.steps[].analysis.args[]" { name value } later { valueFrom }
    GUARD = "services.<name>.strategy.canary.guard" { errorRate latency versusStable consecutiveErrors warmup onFailure }
        later {}
    WARMUP = "services.<name>.strategy.canary.guard.warmup" { errors latency } later {}
    ERROR_RATE = "services.<name>.strategy.canary.guard.errorRate" { max window minRequests } later {}
    LATENCY = "services.<name>.strategy.canary.guard.latency[]" { quantile max window minRequests } later {}
    VERSUS_STABLE = "services.<name>.strategy.canary.guard.versusStable" { alpha errors latency minBadSeconds } later {}
    TOLERANCE = "services.<name>.strategy.canary.guard.versusStable.errors" { relative absolute } later {}
    LATENCY_TOLERANCE = "services.<name>.strategy.canary.guard.versusStable.latency" { relative absolute } later {}
    TEMPLATE = "analysisTemplates.<name>" { args metrics } later {}
    METRIC = "analysisTemplates.<name>.metrics[]" {
        name interval initialDelay count failureLimit inconclusiveLimit consecutiveErrorLimit consecutiveSuccessLimit
        successCondition failureCondition provider
    } later {}
    PROVIDER = "analysisTemplates.<name>.metrics[].provider" { serin }
        later { prometheus web job exec datadog cloudWatch newRelic graphite influxdb wavefront skywalking kayenta plugin }
    SERIN = "analysisTemplates.<name>.metrics[].provider.serin" { version window } later {}
}

/// Where else a field of this name belongs.
#[must_use]
pub fn home(field: &str) -> Option<&'static str> {
    let mut homes = ALL.iter().filter(|shape| shape.fields.contains(&field) || shape.later.contains(&field));
    let first = homes.next()?;
    // `name` and the like are at home in too many places for a hint.
    homes.next().is_none().then_some(first.path)
}
