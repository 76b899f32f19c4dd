//! The end of a client's connection where the proxy is the one to end it: what was sent is let arrive. A socket that is closed
//! with bytes unread, or gets some afterwards, is reset, and the client loses what had not reached it yet (RFC 9112 9.6).
//! So the client is told of the end, and what it still sends is read and thrown away, for a while.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{connection::Conn, deadline::Deadline, transport::Transport};

/// How long it lasts at most, whatever the client sends.
const WHOLE_MAX: Duration = Duration::from_secs(10);
/// How long a client may send nothing, and not end either.
const SILENCE_MAX: Duration = Duration::from_secs(2);
/// The same once the proxy stops.
const STOPPING_MAX: Duration = Duration::from_millis(500);
/// How much is thrown away at once.
const PIECE: usize = 16 * 1024;

/// Ends a connection on which all has been written that there is to say.
pub(super) async fn linger(conn: &Conn, mut transport: Transport) {
    let ticks = &conn.worker().ticks;
    let [whole, silence] = [WHOLE_MAX, SILENCE_MAX].map(|max| {
        let deadline = Deadline::new(ticks);
        deadline.arm(max);
        deadline
    });
    let mut room = vec![0; PIECE];
    let (mut is_told, mut is_stopping) = (false, false);
    let ended = poll_fn(|cx| {
        is_told = is_told || Pin::new(&mut transport).poll_shutdown(cx).is_ready();
        while let Poll::Ready(has_sent) = poll_more(cx, &mut transport, &mut room) {
            if !has_sent {
                return Poll::Ready(());
            }
            silence.arm(SILENCE_MAX);
        }
        if conn.takes_no_more() && !std::mem::replace(&mut is_stopping, true) {
            whole.arm(STOPPING_MAX);
        }
        if silence.poll_passed(cx).is_ready() { Poll::Ready(()) } else { whole.poll_passed(cx) }
    });
    conn.unless_ended(pin!(ended)).await;
}

/// Whether the client has sent something more, and not ended.
fn poll_more(cx: &mut Context<'_>, transport: &mut Transport, room: &mut [u8]) -> Poll<bool> {
    let mut room = ReadBuf::new(room);
    Pin::new(transport).poll_read(cx, &mut room).map(|read| read.is_ok() && !room.filled().is_empty())
}
