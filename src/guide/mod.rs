#![doc = include_str!("index.md")]
//! THE MANUAL. Pages as text, for the crate's documentation and `serin explain TOPIC`. Knows nothing of the program; a test runs or
//! checks every command and file in them.

macro_rules! pages {
    ($($module:ident $topic:literal $about:literal;)*) => {
        $(
            #[doc = include_str!(concat!($topic, ".md"))]
            pub mod $module {}
        )*

        /// Every page: its topic, what it is about, and its text.
        pub const PAGES: &[Page] = &[
            $(Page { topic: $topic, about: $about, text: include_str!(concat!($topic, ".md")) }),*
        ];
    };
}

/// One page of the manual.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// The word by which it is asked for.
    pub topic: &'static str,
    /// What it is about, in a few words.
    pub about: &'static str,
    /// Markdown.
    pub text: &'static str,
}

pages! {
    tutorial "tutorial" "from nothing to your own two services, in ten minutes";
    concepts "concepts" "bucket, share test, guard, what counts as an error";
    running "running" "systemd, containers, Kubernetes, reload, upgrade";
    pipelines "pipelines" "check, wait, report and exit codes in CI";
    limits "limits" "what Serin does not do";
    proof "proof" "what the decisions promise, as measured";
    from_argo "from-argo" "coming from Argo Rollouts";
    from_flagger "from-flagger" "coming from Flagger";
    from_nginx "from-nginx" "coming from ingress-nginx canary annotations";
    from_istio "from-istio" "coming from Istio";
    from_traefik "from-traefik" "coming from Traefik";
    from_gateway_api "from-gateway-api" "coming from the Gateway API";
}
