//! Whole pages: what stands around the pieces, and the pages that ask before something is done.

use maud::{DOCTYPE, Markup, html};

use super::{
    chart::clock,
    look::{self, Moment, Pieces},
    offer::{Offer, Wants, standing},
};
use crate::{
    admin::session::Session,
    api::REASON_BYTES_MAX,
    control::handle::Handle,
    engine::{time::Timestamp, view::ServiceView},
};

/// How often a page without scripts is loaded again, in seconds.
const REFRESH_SECONDS: u8 = 5;

/// One service.
pub(super) fn service(moment: &Moment, service: &ServiceView, handle: &Handle, session: Option<&Session>) -> Markup {
    let pieces = look::pieces(moment, service, handle);
    let title = format!("{}: {}", service.name, service.phase.as_str());
    let live = format!("/services/{}/live", service.name);
    let body = html! {
        (piece(&pieces, "spoken"))
        (piece(&pieces, "banner"))
        (piece(&pieces, "state"))
        (piece(&pieces, "answers"))
        (piece(&pieces, "curves"))
        div class="two" {
            (piece(&pieces, "why"))
            div { (piece(&pieces, "checks")) (piece(&pieces, "history")) }
        }
    };
    let verbs = ["status -w", "why", "history", "abort"];
    let frame = Frame {
        title: &title,
        heading: Some(service.name.as_str()),
        live: Some(&live),
        at: Some(moment.view.at),
        session,
    };
    frame.around(&html! {
        main id="main" { (body) }
        footer { p { "The same from a terminal: " @for verb in verbs { code { "serin " (verb) " " (service.name) } " " } } }
    })
}

/// All services.
pub(super) fn overview(moment: &Moment, session: Option<&Session>) -> Markup {
    let pieces = look::overview(moment);
    let frame = Frame { title: "Services", heading: None, live: Some("/live"), at: Some(moment.view.at), session };
    frame.around(&html! {
        main id="main" { (piece(&pieces, "banner")) (piece(&pieces, "services")) }
        footer { p { "The same from a terminal: " code { "serin status -w" } } }
    })
}

/// Shall it be done?
pub(super) fn ask(service: &ServiceView, offer: &Offer, session: &Session, at: Timestamp) -> Markup {
    let title = format!("{} {}", offer.verb, service.name);
    let frame =
        Frame { title: &title, heading: Some(service.name.as_str()), live: None, at: Some(at), session: Some(session) };
    let class = if offer.verb == "abort" { "button danger" } else { "button" };
    frame.around(&html! {
        main id="main" {
            form class="ask card" method="post" action={ "/services/" (service.name) "/" (offer.verb) } {
                h1 { (offer.label.trim_end_matches('\u{2026}')) "?" }
                p class="effect" { (offer.effect) }
                ul { @for line in standing(service) { li { (line) } } }
                input type="hidden" name="form" value=(session.form_token);
                input type="hidden" name="revision" value=(service.revision);
                @if offer.full { input type="hidden" name="full" value="true"; }
                @if let Some(wants) = &offer.wants { (wanted(wants)) }
                label for="reason" { "Why, for the history (may be empty)" }
                input id="reason" name="reason" maxlength=(REASON_BYTES_MAX / 4) autocomplete="off";
                div class="row" {
                    button class=(class) type="submit" id="confirm" autofocus[offer.wants.is_none()] { (offer.label.trim_end_matches('\u{2026}')) " now" }
                    a href={ "/services/" (service.name) } { "No, back" }
                }
            }
        }
    })
}

/// What else must be said, with the focus in it.
fn wanted(wants: &Wants) -> Markup {
    html! {
        @match wants {
            Wants::Weight(now) => {
                label for="weight" { "Its share, as 5% or 2500ppm (now " (now) ")" }
                input id="weight" name="weight" required maxlength="12" autocomplete="off" autofocus;
            }
            Wants::Version(all) => {
                label for="to" { "Which version" }
                select id="to" name="to" required autofocus { @for name in all { option value=(name) { (name) } } }
            }
        }
    }
}

/// The way in.
pub(super) fn login(next: &str, wrong: Option<&str>) -> Markup {
    let frame = Frame { title: "Log in", heading: None, live: None, at: None, session: None };
    frame.around(&html! {
        main id="main" {
            form class="ask card" method="post" action="/login" {
                h1 { "Log in" }
                @if let Some(wrong) = wrong { p class="wrong" role="alert" { (wrong) } }
                p { "With the write token you may change things. It is " code { "admin.writeToken" } " of the config file; where that is not set, it is in the file "
                    code { "write-token" } " in the state folder. With the read token you may look." }
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input id="token" name="token" type="password" required autocomplete="current-password" autofocus;
                label for="actor" { "Who you are, for the history" }
                input id="actor" name="actor" maxlength="60" autocomplete="username";
                div class="row" { button class="button" type="submit" { "Log in" } a href="/" { "Back" } }
            }
        }
    })
}

/// Something did not work.
pub(super) fn sorry(message: &str, help: Option<&str>) -> Markup {
    let frame = Frame { title: "Not done", heading: None, live: None, at: None, session: None };
    frame.around(&html! {
        main id="main" {
            div class="ask card" {
                h1 { "That was not done" }
                p class="wrong" role="alert" { (message) }
                @if let Some(help) = help { p { (help) } }
                div class="row" { a class="button" href="/" { "Back to the dashboard" } }
            }
        }
    })
}

/// The clock in the corner.
pub(super) fn time(at: Timestamp) -> String {
    format!("{} UTC", clock(at, true))
}

struct Frame<'a> {
    title: &'a str,
    heading: Option<&'a str>,
    /// Where the pieces come from.
    live: Option<&'a str>,
    at: Option<Timestamp>,
    session: Option<&'a Session>,
}

impl Frame<'_> {
    fn around(&self, body: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) " \u{b7} Serin" }
                    link rel="stylesheet" href="/style.css";
                    link rel="icon" href="/icon.svg" type="image/svg+xml";
                    @if self.live.is_some() {
                        noscript { meta http-equiv="refresh" content=(REFRESH_SECONDS); }
                        script src="/live.js" defer {}
                    }
                }
                body class=[self.live.map(|_| "plainly")] data-live=[self.live] { (self.top()) (body) }
            }
        }
    }

    fn top(&self) -> Markup {
        html! {
            a class="skip" href="#main" { "To the content" }
            header {
                a class="brand" href="/" { img src="/icon.svg" alt="" width="20" height="20"; "Serin" }
                @if let Some(heading) = self.heading { h1 { (heading) } }
                div class="right" {
                    @if let Some(at) = self.at { span id="clock" { (time(at)) } }
                    @match self.session {
                        Some(session) => {
                            span { (if session.actor.is_empty() { "logged in" } else { &session.actor }) @if !session.may_write { " (may look)" } }
                            form method="post" action="/logout" {
                                input type="hidden" name="form" value=(session.form_token);
                                button class="link" type="submit" { "Log out" }
                            }
                        }
                        None if self.at.is_some() => a href="/login" { "Log in" },
                        None => {},
                    }
                }
            }
        }
    }
}

fn piece(pieces: &Pieces, name: &str) -> Markup {
    let markup = pieces.iter().find(|(of, _)| *of == name).map(|(_, markup)| markup);
    let (class, role) = if name == "spoken" { (Some("spoken"), Some("status")) } else { (None, None) };
    html! { section id=(name) class=[class] role=[role] aria-label=[(name == "state").then_some("Where it stands")] { @if let Some(markup) = markup { (markup) } } }
}
