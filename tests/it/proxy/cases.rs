//! Requests and answers that are easy to get wrong, as bytes, with what may come of them. Rewritten from RFC 9110 and 9112
//! and from what has been used against proxies; `{x*9}` stands for `xxxxxxxxx`.

/// A request, with the statuses that may be the first answer to it (0: the connection ends without) and whether a whole
/// request may reach an upstream.
pub struct Asked {
    pub name: &'static str,
    pub bytes: &'static str,
    pub allow: &'static [u16],
    pub reaches: bool,
}

/// What an upstream sends, with the statuses that the client may get.
pub struct Told {
    pub name: &'static str,
    pub bytes: &'static str,
    pub then: Then,
    pub allow: &'static [u16],
}

/// What the upstream does after its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Keep,
    Close,
    Reset,
}

macro_rules! asked {
    ($($name:literal $bytes:literal => $allow:tt $reaches:literal;)*) => {
        pub const ASKED: &[Asked] =
            &[$(Asked { name: $name, bytes: $bytes, allow: &$allow, reaches: $reaches }),*];
    };
}

macro_rules! told {
    ($($name:literal $bytes:literal $then:ident => $allow:tt;)*) => {
        pub const TOLD: &[Told] = &[$(Told { name: $name, bytes: $bytes, then: Then::$then, allow: &$allow }),*];
    };
}

asked! {
    // Framing.
    "length and coding" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX" => [400, 200] true;
    "coding with a request inside" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n25\r\nGET /smuggled HTTP/1.1\r\nHost: t\r\n\r\nxx\r\n0\r\n\r\n" => [400, 200] true;
    "coding with a blank before the colon" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n" => [400] false;
    "second coding unknown" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n5\r\nhello\r\n0\r\n\r\n" => [400, 501] false;
    "chunked twice" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" => [400, 501] false;
    "coding behind a vertical tab" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: \u{b}chunked\r\nContent-Length: 5\r\n\r\nhello" => [400, 501] false;
    "coding in quotes" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: \"chunked\"\r\nContent-Length: 5\r\n\r\nhello" => [400, 501] false;
    "coding in odd case" "POST /f HTTP/1.1\r\nHost: t\r\ntRANSFER-eNCODING: CHUNKED\r\n\r\n5\r\nhello\r\n0\r\n\r\n" => [200] true;
    "two lengths" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 42\r\n\r\nhelloGET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n" => [400] false;
    "one length twice" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello" => [200, 400] true;
    "one length in a list" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 5, 5\r\n\r\nhello" => [200, 400] true;
    "length with a sign" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: +5\r\n\r\nhello" => [400] false;
    "length with a blank inside" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 5 2\r\n\r\nhello" => [400] false;
    "length in hexadecimal" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 0x5\r\n\r\nhello" => [400] false;
    "length of nothing" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length:\r\n\r\nhello" => [400] false;
    "length over 64 bits" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 18446744073709551621\r\n\r\nhello" => [400, 413] false;
    "length with zeros before" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 005\r\n\r\nhello" => [200, 400] true;
    "length zero" "POST /f HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n" => [200] true;
    "post without length" "POST /f HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "whole body" "PUT /f HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\nContent-Type: text/plain\r\n\r\nhello world" => [200] true;
    "get with a body" "GET /f HTTP/1.1\r\nHost: t\r\nContent-Length: 37\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: t\r\n\r\nxx" => [200, 400] true;
    "1.0 with coding" "POST /f HTTP/1.0\r\nHost: t\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n" => [400, 501, 505, 0] false;
    "1.0 post without length" "POST /f HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\n\r\n" => [200, 400, 411] true;
    // Chunks.
    "chunks" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n" => [200] true;
    "chunk size ended by LF" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" => [400, 0] false;
    "chunk ended by LF" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\n0\r\n\r\n" => [400, 0] false;
    "chunk size with 0x" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n" => [400, 0] false;
    "chunk size missing" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n;x\r\nhello\r\n0\r\n\r\n" => [400, 0] false;
    "chunk size negative" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n" => [400, 0] false;
    "trailers" "POST /f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n" => [200] true;
    // Lines.
    "folded line" "GET /f HTTP/1.1\r\nHost: t\r\nX-A: 1\r\n 2\r\n\r\n" => [400] false;
    "blank before a colon" "GET /f HTTP/1.1\r\nHost: t\r\nX-A : 1\r\n\r\n" => [400] false;
    "NUL in a value" "GET /f HTTP/1.1\r\nHost: t\r\nX-A: a\0b\r\n\r\n" => [400] false;
    "CR in a value" "GET /f HTTP/1.1\r\nHost: t\r\nX-A: a\rb\r\n\r\n" => [400] false;
    "NUL in a name" "GET /f HTTP/1.1\r\nHost: t\r\nX\0A: b\r\n\r\n" => [400] false;
    "LF alone" "GET /f HTTP/1.1\r\nHost: t\r\nX-A: a\nX-B: b\r\n\r\n" => [200, 400] true;
    "LF alone everywhere" "GET /f HTTP/1.1\nHost: t\n\n" => [200, 400] true;
    "no name" "GET /f HTTP/1.1\r\nHost: t\r\n: x\r\n\r\n" => [400] false;
    "no colon" "GET /f HTTP/1.1\r\nHost: t\r\nabc\r\n\r\n" => [400] false;
    "empty values and blanks around" "GET /f HTTP/1.1\r\nHost:  t \t\r\nX-A:\r\nX-B:  \t \r\nX-C:\tc\tc \r\n\r\n" => [200] true;
    "bytes over 127" "GET /f HTTP/1.1\r\nHost: t\r\nX-A: \u{e9}\u{20ac}\r\n\r\n" => [200] true;
    "names of every letter" "GET /f HTTP/1.1\r\nHost: t\r\n!#$%&'*+-.^_`|~09AZaz: 1\r\n\r\n" => [200] true;
    "one name often, others between" "GET /f HTTP/1.1\r\nHost: t\r\nX-A: 1\r\nX-B: 1\r\nx-a: 2\r\nVia: 1.0 fred\r\nX-B: 2\r\nX-A: 3\r\n\r\n" => [200] true;
    "two blanks in the request line" "GET  /f HTTP/1.1\r\nHost: t\r\n\r\n" => [400] false;
    "version in small letters" "GET /f http/1.1\r\nHost: t\r\n\r\n" => [400, 505, 0] false;
    "version 1.2" "GET /f HTTP/1.2\r\nHost: t\r\n\r\n" => [400, 505] false;
    "no version" "GET /f\r\n\r\n" => [400, 505, 0] false;
    "empty line before" "\r\nGET /f HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "another protocol" "\u{16}\u{3}\u{1}\0{\0*120}\r\n\r\n" => [400, 0] false;
    // Hosts and targets.
    "no host" "GET /f HTTP/1.1\r\nX-A: 1\r\n\r\n" => [400] false;
    "host twice" "GET /f HTTP/1.1\r\nHost: t\r\nHost: t\r\n\r\n" => [400] false;
    "host with a path" "GET /f HTTP/1.1\r\nHost: t/evil\r\n\r\n" => [400] false;
    "host with a blank" "GET /f HTTP/1.1\r\nHost: t evil\r\n\r\n" => [400] false;
    "host with a user" "GET /f HTTP/1.1\r\nHost: u@t\r\n\r\n" => [400] false;
    "host of nothing" "GET /f HTTP/1.1\r\nHost:\r\n\r\n" => [400] false;
    "host with a bad port" "GET /f HTTP/1.1\r\nHost: t:80x\r\n\r\n" => [400] false;
    "host in odd case with port" "GET /f HTTP/1.1\r\nHost: T.Example:8080\r\n\r\n" => [200] true;
    "host as an address" "GET /f HTTP/1.1\r\nHost: [::1]:80\r\n\r\n" => [200] true;
    "absolute target of another host" "GET http://t/f HTTP/1.1\r\nHost: evil\r\n\r\n" => [200, 400] true;
    "absolute target without path" "GET http://t?id=1 HTTP/1.1\r\nHost: t\r\n\r\n" => [200, 400] true;
    "dots" "GET /f/../x/./y/..;/z HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "slashes" "GET //f//a///b/ HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "empty query" "GET /f? HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "all delimiters" "GET /f/a;b=c,d@e:f+g!$&'()*~?x=[y]|z&&= HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "quotes and braces" "GET /f/{a}\"b\"?q={}\\^`<> HTTP/1.1\r\nHost: t\r\n\r\n" => [200, 400] true;
    "encoded bytes" "GET /f/%2e%2E/%00%ff%zz HTTP/1.1\r\nHost: t\r\n\r\n" => [200, 400] true;
    "long path" "GET /f/{p*7900} HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "fragment" "GET /f#admin HTTP/1.1\r\nHost: t\r\n\r\n" => [200, 400] true;
    "blank in the target" "GET /f a HTTP/1.1\r\nHost: t\r\n\r\n" => [400] false;
    "control bytes in the target" "GET /f/\u{1}\u{7f} HTTP/1.1\r\nHost: t\r\n\r\n" => [400] false;
    "no slash" "GET f HTTP/1.1\r\nHost: t\r\n\r\n" => [400] false;
    "asterisk" "GET * HTTP/1.1\r\nHost: t\r\n\r\n" => [400] false;
    "asterisk of options" "OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    // This hop.
    "nominated field" "GET /f HTTP/1.1\r\nHost: t\r\nConnection: X-Secret, keep-alive\r\nX-Secret: 1\r\nX-Keep: 2\r\n\r\n" => [200] true;
    "fields of the hop" "GET /f HTTP/1.1\r\nHost: t\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n\r\n" => [200] true;
    "trailers wanted" "GET /f HTTP/1.1\r\nHost: t\r\nTE: trailers\r\nConnection: TE\r\n\r\n" => [200] true;
    "framing nominated" "POST /f HTTP/1.1\r\nHost: t\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello" => [200] true;
    "close and keep-alive" "GET /f HTTP/1.1\r\nHost: t\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n" => [200] true;
    "close in a list" "GET /f HTTP/1.1\r\nHost: t\r\nConnection: Keep-Alive, CLOSE\r\n\r\n" => [200] true;
    "close, then more" "GET /f HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "h2c" "GET /f HTTP/1.1\r\nHost: t\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" => [200] true;
    "upgrade not taken, then more" "GET /f HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\nGET /g HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "upgrade in 1.0" "GET /f HTTP/1.0\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" => [200] true;
    "upgrade without the option" "GET /f HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\n\r\n" => [200] true;
    "unknown expectation" "POST /f HTTP/1.1\r\nHost: t\r\nExpect: teapot\r\nContent-Length: 5\r\n\r\nhello" => [417] false;
    "expectation in 1.0" "POST /f HTTP/1.0\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello" => [200] true;
    "two cookie fields" "GET /f HTTP/1.1\r\nHost: t\r\nCookie: a=1\r\nX-A: 1\r\nCookie: b=2\r\n\r\n" => [200] true;
    // Methods and persistence.
    "connect" "CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n" => [501] false;
    "trace" "TRACE /f HTTP/1.1\r\nHost: t\r\nMax-Forwards: 0\r\n\r\n" => [501] false;
    "unknown method" "FOOBAR /f HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "method in small letters" "get /f HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "head, then get" "HEAD /f HTTP/1.1\r\nHost: t\r\n\r\nGET /g HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "three at once" "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nDELETE /2 HTTP/1.1\r\nHost: t\r\n\r\nOPTIONS /3 HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "fast, then ordinary" "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nPOST /2 HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nGET /3 HTTP/1.1\r\nHost: t\r\n\r\n" => [200] true;
    "fast, then broken" "GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\nbroken\r\n\r\n" => [200] true;
    "1.0 kept alive" "GET /f HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\n\r\n" => [200] true;
    "1.0" "GET /f HTTP/1.0\r\n\r\n" => [200] true;
    // Sizes.
    "101 fields" "GET /f HTTP/1.1\r\nHost: t\r\n{X-N: v\r\n*100}\r\n" => [431] false;
    "100 fields" "GET /f HTTP/1.1\r\nHost: t\r\n{X-N: v\r\n*99}\r\n" => [200] true;
    "17 KiB of fields" "GET /f HTTP/1.1\r\nHost: t\r\n{X-N: vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv\r\n*90}\r\n" => [200] true;
    "long method" "{M*100} /f HTTP/1.1\r\nHost: t\r\n\r\n" => [400, 501] false;
    // Where it came from.
    "claims" "GET /f HTTP/1.1\r\nHost: t\r\nX-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Forwarded-Prefix: /evil\r\nX-Forward: 1\r\nForwardedX: 1\r\n\r\n" => [200] true;
    "markup" "GET /f HTTP/1.1\r\nHost: t\r\nX-Forwarded-For: \"><script>alert(1)</script>\r\nUser-Agent: <img src=x>\r\n\r\n" => [200] true;
}

told! {
    "another protocol" "HTTX/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "version 2" "HTTP/2 200\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "status out of range" "HTTP/1.1 099 X\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "length and coding" "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" Close => [200, 502];
    "length that is none" "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\nhello" Close => [502];
    "one length twice" "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello" Keep => [200, 502];
    "one length in a list" "HTTP/1.1 200 OK\r\nContent-Length: 5, 05\r\n\r\nhello" Keep => [200, 502];
    "length with zeros before" "HTTP/1.1 200 OK\r\nContent-Length: 005\r\n\r\nhello" Keep => [200];
    "two lengths" "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello" Close => [502];
    "cut" "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello" Close => [200, 502, 0];
    "cut in the head" "HTTP/1.1 200 OK\r\nContent-Le" Close => [502];
    "nothing" "" Close => [502];
    "reset" "" Reset => [502];
    "bad chunk" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\nx\r\n0\r\n\r\n" Close => [200, 502, 0];
    "chunks cut" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n5\r\nhe" Close => [200, 502, 0];
    "more than was said" "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nX-Evil: 1\r\nContent-Length: 4\r\n\r\nevil" Keep => [200];
    "CR in a value" "HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "folded line" "HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "blank before a colon" "HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "CR in the reason" "HTTP/1.1 200 O\rK\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "early hints" "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" Keep => [200];
    "100 unasked" "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" Keep => [200];
    "101 unasked" "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nraw" Keep => [502];
    "33 of 100" "{HTTP/1.1 100 Continue\r\n\r\n*33}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "large head" "HTTP/1.1 200 OK\r\nX-Big: {a*100000}\r\nContent-Length: 2\r\n\r\nok" Keep => [200];
    "head too large" "HTTP/1.1 200 OK\r\nX-Big: {a*1048576}\r\nContent-Length: 2\r\n\r\nok" Close => [502];
    "101 fields" "HTTP/1.1 200 OK\r\n{X-N: v\r\n*100}Content-Length: 2\r\n\r\nok" Close => [502];
    "1.0 with coding" "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n" Close => [502];
    "1.0 to the end" "HTTP/1.0 200 OK\r\n\r\nhello" Close => [200];
    "1.0 kept alive" "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok" Keep => [200];
    "1.1 to the end" "HTTP/1.1 200 OK\r\nX-A: 1\r\n\r\nhello" Close => [200];
    "1.1 to the end, nothing" "HTTP/1.1 200 OK\r\n\r\n" Close => [200];
    "304 with length" "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\nETag: \"a\"\r\n\r\n" Keep => [304];
    "204 with length" "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\nTrailer: x\r\n\r\n" Keep => [204];
    "205" "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n" Keep => [205];
    "length zero" "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: 1\r\n\r\n" Keep => [200];
    "length of two zeros" "HTTP/1.1 200 OK\r\nContent-Length: 00\r\n\r\n" Keep => [200];
    "trailers" "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\ntrailer: X-More\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nSet-Cookie: evil=1\r\n\r\n" Keep => [200];
    "trailer announced with a length" "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nContent-Length: 2\r\n\r\nok" Keep => [200];
    "broken trailers" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX : 1\r\n\r\n" Close => [200, 502, 0];
    "many chunks" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{3;x=y\r\nabc\r\n*500}0\r\n\r\n" Keep => [200];
    "large body" "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n{b*300000}" Keep => [200];
    "large chunk" "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n493e0\r\n{b*300000}\r\n0\r\n\r\n" Keep => [200];
    "fields of the hop" "HTTP/1.1 200 OK\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: x\r\nUpgrade: h2\r\nTE: x\r\nHTTP2-Settings: x\r\nX-Keep: 2\r\nContent-Length: 2\r\n\r\nok" Close => [200];
    "length nominated" "HTTP/1.1 200 OK\r\nConnection: Content-Length, Host\r\nHost: x\r\nContent-Length: 2\r\n\r\nok" Keep => [200];
    "one name often, others between" "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX-A: 1\r\nset-cookie: b=2\r\nDate: now\r\nServer: x\r\nVia: 1.1 y\r\nContent-Length: 2\r\nX-A: 2\r\n\r\nok" Keep => [200];
    "empty values and odd bytes" "HTTP/1.1 200\r\nX-A:\r\nX-B: \t \r\nX-C: \u{e9}\r\nContent-Length: 2\r\n\r\nok" Keep => [200];
    "strange status" "HTTP/1.1 799 Whatever\r\nContent-Length: 2\r\n\r\nok" Keep => [799];
    "error" "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nRetry-After: 1\r\n\r\nno" Keep => [503];
    "LF alone" "HTTP/1.1 200 OK\nContent-Length: 2\n\nok" Keep => [200, 502];
    "event stream" "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nTransfer-Encoding: chunked\r\n\r\n8\r\ndata: 1\n\r\n0\r\n\r\n" Keep => [200];
}
