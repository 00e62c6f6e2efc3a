//! The body of an answer as an operator gets it: the server's own, held back, rewritten, or one in its place.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use drover_corral::apiserver::ApiBody;
use http_body::{Body, Frame};

use super::Gate;

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What rewrites the lines of a watch.
pub type Rewrite = Box<dyn FnMut(&[u8]) -> Option<Vec<u8>> + Send>;

pub enum GatedBody {
    Whole(Option<Bytes>),
    Watch(Box<GatedWatch>),
}

/// A watch whose lines may come late or changed.
pub struct GatedWatch {
    pub inner: ApiBody,
    pub gate: Gate,
    pub operator: String,
    pub plural: String,
    pub rewrite: Option<Rewrite>,
    pub pause: Option<Timer>,
    pub begun: BytesMut,
    pub ready: VecDeque<Bytes>,
}

impl GatedWatch {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(pause) = &mut self.pause {
                match pause.as_mut().poll(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => self.pause = None,
                }
            }
            if let Some(until) = self.gate.deaf_until(&self.operator, &self.plural) {
                let clock = self.gate.clock();
                self.pause = Some(Box::pin(async move { clock.sleep_until(until).await }));
                continue;
            }
            if let Some(line) = self.ready.pop_front() {
                return Poll::Ready(Some(line));
            }
            match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    self.take(data);
                }
                Poll::Ready(Some(Err(never))) => match never {},
            }
        }
    }

    /// A frame is a piece of a line; a line can be rewritten only as a whole.
    fn take(&mut self, data: Bytes) {
        let Some(rewrite) = &mut self.rewrite else {
            self.ready.push_back(data);
            return;
        };
        self.begun.extend_from_slice(&data);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let line = self.begun.split_to(end + 1);
            self.ready.extend(rewrite(&line).map(Bytes::from));
        }
    }
}

impl Body for GatedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            GatedBody::Whole(bytes) => Poll::Ready(bytes.take()),
            GatedBody::Watch(watch) => watch.poll(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
