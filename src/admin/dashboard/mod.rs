//! The dashboard: pages for people, made on the server, that work without scripts and by keyboard. Shows the view and
//! passes commands on, as the API does; nothing changes by GET.

mod chart;
mod form;
mod live;
mod look;
mod offer;
mod page;

use std::sync::Arc;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use maud::Markup;

use super::{Inside, gate, read};
use look::Moment;

/// Only what is served here; forms go here alone, and nobody else shows it in a frame.
const CSP: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Largest form.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// All routes of the dashboard.
pub(super) fn routes() -> Router<Arc<Inside>> {
    Router::new()
        .route("/", get(front))
        .route("/live", get(live::overview))
        .route("/services/{service}", get(service))
        .route("/services/{service}/live", get(live::service))
        .route("/services/{service}/{verb}", get(form::ask).post(form::carry_out))
        .route("/login", get(form::login).post(form::log_in))
        .route("/logout", post(form::log_out))
        .route("/style.css", get(async || asset("text/css; charset=utf-8", include_str!("style.css"))))
        .route("/live.js", get(async || asset("text/javascript; charset=utf-8", include_str!("live.js"))))
        .route("/icon.svg", get(async || asset("image/svg+xml", include_str!("icon.svg"))))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
}

/// `GET /`: the only service, or all of them; as text for those who do not ask for a page.
async fn front(State(inside): State<Arc<Inside>>, headers: HeaderMap) -> Response {
    if !gate::wants_html(&headers) {
        return read::front_page(&inside);
    }
    let moment = Moment::now(&inside.outside.handle);
    let session = inside.gate.sessions.of(&headers);
    let markup = match &moment.view.services[..] {
        [only] => page::service(&moment, only, &inside.outside.handle, session.as_ref()),
        _ => page::overview(&moment, session.as_ref()),
    };
    html(StatusCode::OK, markup)
}

/// `GET /services/{service}`
async fn service(State(inside): State<Arc<Inside>>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let moment = Moment::now(&inside.outside.handle);
    let session = inside.gate.sessions.of(&headers);
    let found = moment.view.services.iter().find(|service| service.name.as_str() == name);
    match found {
        Some(service) => {
            html(StatusCode::OK, page::service(&moment, service, &inside.outside.handle, session.as_ref()))
        }
        None => html(StatusCode::NOT_FOUND, page::sorry("There is no such service.", None)),
    }
}

fn html(status: StatusCode, markup: Markup) -> Response {
    let mut response = (status, markup).into_response();
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP));
    response
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
