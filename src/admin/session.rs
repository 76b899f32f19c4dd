//! Who has logged in on the dashboard: a cookie that no script can read and no other site can send, and for each session
//! a form token. Bounded in number and time; gone with the process. Knows no route.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, header};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    error::Unspecified,
    hmac::{self, HMAC_SHA256, Key},
    rand::{SecureRandom as _, SystemRandom},
};

/// Sessions at once; the oldest ends first.
const SESSIONS_MAX: usize = 64;
/// How long a session lasts.
pub(super) const LASTS: Duration = Duration::from_hours(12);

/// What a logged-in person may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// Change things, not only look.
    pub(super) may_write: bool,
    /// Who they say they are; may be empty.
    pub(super) actor: String,
    /// What each of their forms carries.
    pub(super) form_token: String,
}

/// All sessions of one listener.
#[derive(Debug)]
pub(super) struct Sessions {
    cookie: String,
    key: Key,
    random: SystemRandom,
    open: Mutex<VecDeque<Open>>,
}

/// The id itself is not kept, only what it must sign to.
#[derive(Debug)]
struct Open {
    tag: Vec<u8>,
    since: Instant,
    session: Session,
}

impl Sessions {
    /// None yet. Cookies do not know ports: listeners on one host are told apart by the cookie's name.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(super) fn new(port: u16) -> Result<Self, Unspecified> {
        let random = SystemRandom::new();
        let key = Key::generate(HMAC_SHA256, &random)?;
        Ok(Self { cookie: format!("serin_{port}"), key, random, open: Mutex::default() })
    }

    /// Begins a session and gives the `Set-Cookie` for it.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(super) fn begin(&self, may_write: bool, actor: String) -> Result<String, Unspecified> {
        let (id, form_token) = (self.random_text()?, self.random_text()?);
        let session = Session { may_write, actor, form_token };
        let tag = hmac::sign(&self.key, id.as_bytes()).as_ref().to_vec();
        let mut open = self.lock();
        if open.len() >= SESSIONS_MAX {
            open.pop_front();
        }
        open.push_back(Open { tag, since: Instant::now(), session });
        Ok(self.set_cookie(&id, LASTS.as_secs()))
    }

    /// The session that these headers belong to.
    pub(super) fn of(&self, headers: &HeaderMap) -> Option<Session> {
        let id = self.id(headers)?;
        let mut open = self.lock();
        open.retain(|open| open.since.elapsed() < LASTS);
        open.iter().find(|open| hmac::verify(&self.key, id, &open.tag).is_ok()).map(|open| open.session.clone())
    }

    /// Ends it and gives the `Set-Cookie` that removes its cookie.
    pub(super) fn end(&self, headers: &HeaderMap) -> String {
        if let Some(id) = self.id(headers) {
            self.lock().retain(|open| hmac::verify(&self.key, id, &open.tag).is_err());
        }
        self.set_cookie("", 0)
    }

    /// Compares without telling by its time where they differ.
    pub(super) fn is_same(&self, given: &str, wanted: &str) -> bool {
        let tag = hmac::sign(&self.key, wanted.as_bytes());
        !wanted.is_empty() && hmac::verify(&self.key, given.as_bytes(), tag.as_ref()).is_ok()
    }

    fn id<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.find(|(name, _)| *name == self.cookie).map(|(_, id)| id.as_bytes())
    }

    fn set_cookie(&self, id: &str, seconds: u64) -> String {
        format!("{}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}", self.cookie)
    }

    fn random_text(&self) -> Result<String, Unspecified> {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes)?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(set_cookie: &str) -> HeaderMap {
        let pair = set_cookie.split(';').next().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("cookie", format!("a=b; {pair}; c").parse().unwrap());
        headers
    }

    #[test]
    fn a_session_is_known_by_its_cookie_until_it_ends() {
        let sessions = Sessions::new(9900).unwrap();
        let cookie = sessions.begin(true, "ann".into()).unwrap();
        assert!(cookie.starts_with("serin_9900=") && cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let headers = with(&cookie);
        assert_eq!(sessions.of(&headers).map(|session| (session.may_write, session.actor)), Some((true, "ann".into())));
        assert_eq!(sessions.of(&with("serin_9900=x")), None);
        assert_eq!(sessions.of(&with("serin_9900=")), None);
        assert_eq!(sessions.of(&HeaderMap::new()), None);
        sessions.begin(false, String::new()).unwrap();
        assert!(sessions.end(&headers).contains("Max-Age=0"));
        assert_eq!(sessions.of(&headers), None);
        assert_eq!(sessions.lock().len(), 1, "another's session goes on");
    }

    #[test]
    fn the_oldest_session_makes_room() {
        let sessions = Sessions::new(1).unwrap();
        let cookies: Vec<_> = (0..=SESSIONS_MAX).map(|_| sessions.begin(false, String::new()).unwrap()).collect();
        assert_eq!(sessions.of(&with(&cookies[0])), None);
        assert!(cookies[1..].iter().all(|cookie| sessions.of(&with(cookie)).is_some()));
    }

    #[test]
    fn tokens_are_compared_whole() {
        let sessions = Sessions::new(1).unwrap();
        for (given, wanted, is) in [
            ("abc", "abc", true),
            ("abd", "abc", false),
            ("ab", "abc", false),
            ("", "abc", false),
            ("", "", false),
            ("a", "", false),
        ] {
            assert_eq!(sessions.is_same(given, wanted), is, "{given} {wanted}");
        }
    }
}
