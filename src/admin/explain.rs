//! `POST explain-request`: where a request would go, without sending it.

use std::{net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri},
    response::Response,
};

use super::{
    Inside, act,
    answer::{self, Problem},
};
use crate::{
    api::{RequestAnswer, RequestQuestion},
    engine::{address::Address, explain, filter::Scheme, request::RequestView},
};

/// Most fields of a question.
const HEADERS_MAX: usize = 100;

pub(super) async fn request(
    State(inside): State<Arc<Inside>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let body = act::read_body(&headers, body).await?;
    let question: RequestQuestion = serde_json::from_slice(&body).map_err(|error| bad(&error.to_string()))?;
    let method: Method = question.method.parse().map_err(|_| bad("`method` is not a method"))?;
    let url: Uri = question.url.parse().map_err(|_| bad("`url` is not a URL"))?;
    let fields = fields(&question)?;
    let scheme = if url.scheme_str() == Some("https") { Scheme::Https } else { Scheme::Http };
    let request = RequestView {
        scheme,
        method: &method,
        host: url.host().ok_or_else(|| bad("`url` needs a host, as in `http://shop.example/path`"))?,
        port: url.port_u16(),
        path: url.path(),
        query: url.query().unwrap_or_default(),
        headers: &fields,
        client: address(question.client.unwrap_or(IpAddr::from([127, 0, 0, 1]))),
    };
    let told = explain::explain(&inside.outside.publication.current(), &request);
    let told =
        told.ok_or_else(|| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "noService", "no service is configured"))?;
    Ok(answer::document(RequestAnswer::from(told)))
}

fn fields(question: &RequestQuestion) -> Result<HeaderMap, Problem> {
    if question.headers.len() > HEADERS_MAX {
        return Err(bad("there are more than 100 `headers`"));
    }
    let mut fields = HeaderMap::new();
    for (name, value) in &question.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("a name in `headers` is none"))?;
        let value = HeaderValue::from_str(value).map_err(|_| bad("a value in `headers` is none"))?;
        fields.append(name, value);
    }
    Ok(fields)
}

fn address(ip: IpAddr) -> Address {
    match ip {
        IpAddr::V4(ip) => Address::v4(ip.octets()),
        IpAddr::V6(ip) => Address::v6(ip.octets()),
    }
}

fn bad(problem: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "badRequest", format!("the question is not what it should be: {problem}"))
        .with_help(
            "send `{ \"method\": \"GET\", \"url\": \"http://host/path\", \"headers\": [[\"name\", \"value\"]] }`",
        )
}
