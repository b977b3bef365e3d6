//! `POST /glue/{collection}`: pieces as NDJSON, one a line, in a body of any length.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use bytes::Bytes;
use consort_glue::Reason;
use consort_kernel::Budget;

use super::bulk_answer::BulkAnswer;
use super::bulk_line::{self, LineTenant, RefusedLine};
use super::open::OpenCollection;
use super::parameters::Parameters;
use super::piece_sender::PieceSender;
use super::{Glue, is_bulk};
use crate::memory::BodyShare;
use crate::problem::Problem;
use crate::problems;
use crate::streams::apart::{self, Pieces};
use crate::streams::inflate::{Coding, Inflate};
use crate::streams::lines::{LINE_MOST, Line, Lines, Split as _};
use crate::streams::unreadable;
use crate::tenants::{Caller, TenantScope};

/// The content types of bulk requests.
pub(super) const TYPES: [&str; 3] =
    ["application/x-ndjson", "application/ndjson", "application/jsonl"];

/// `POST /glue/{collection}`
pub(super) async fn post(
    State(glue): State<Glue>,
    name: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    let name = name.map_or_else(|_| String::new(), |Path(name)| name);
    let collection = Arc::clone(glue.collection(&name)?);
    let (head, body) = request.into_parts();
    Parameters::read(head.uri.query(), &[])?;
    if !is_bulk(&head.headers) {
        let detail = "pieces are posted as application/x-ndjson, one a line: \
                      {\"id\": …, \"form\": …, \"piece\": …}";
        return Err(Problem::new(problems::CONTENT_TYPE, detail));
    }
    let caller = Caller::from_extensions(&head.extensions);
    let tenant = match caller.scope(&head.headers)? {
        TenantScope::One(tenant) => tenant,
        TenantScope::All => caller.tenant(&head.headers)?,
    };
    let of = LineTenant { caller, tenant };
    let inflate = Inflate::new(Coding::from_headers(&head.headers)?);
    let share = BodyShare::from_extensions(&head.extensions);
    drop(head);
    let intake = Arc::clone(&collection.intake);
    let work =
        |pieces| async move { BulkReader::new(collection, of, share).read(pieces, inflate).await };
    apart::read(&intake, body, work).await
}

/// A bulk request that is being read.
struct BulkReader {
    collection: Arc<OpenCollection>,
    of: LineTenant,
    share: BodyShare,
    split: Lines,
    sender: PieceSender,
    answer: BulkAnswer,
    budget: Budget,
    /// Lines that have begun.
    line: u64,
    /// The first line behind a failure.
    passed_over: Option<u64>,
}

impl BulkReader {
    fn new(collection: Arc<OpenCollection>, of: LineTenant, share: BodyShare) -> BulkReader {
        BulkReader {
            sender: PieceSender::new(Arc::clone(&collection)),
            collection,
            of,
            share,
            split: Lines::default(),
            answer: BulkAnswer::default(),
            budget: Budget::default(),
            line: 0,
            passed_over: None,
        }
    }

    async fn read(mut self, mut pieces: Pieces, mut inflate: Inflate) -> Result<Response, Problem> {
        while let Some(piece) = pieces.next().await {
            let Ok(piece) = piece else {
                // The lines before are stored; the client does not know how many, so they need keys or numbers.
                self.sender.finish().await;
                return Err(unreadable());
            };
            inflate.feed(piece);
            if let Err(problem) = self.inflated(&mut inflate).await {
                return Ok(self.end(Some(problem)).await);
            }
        }
        match inflate.end() {
            Ok(Some(piece)) => self.piece(piece).await,
            Ok(None) => {}
            Err(problem) => return Ok(self.end(Some(problem)).await),
        }
        let rest = match self.split.last() {
            Some(Line::Whole(line, _)) => Some(Some(Bytes::copy_from_slice(line))),
            Some(Line::TooLong) => Some(None),
            None => None,
        };
        if let Some(line) = rest {
            self.line(line.as_deref()).await;
        }
        Ok(self.end(None).await)
    }

    async fn inflated(&mut self, inflate: &mut Inflate) -> Result<(), Problem> {
        while let Some(piece) = inflate.next()? {
            self.budget.spend(inflate.step_price()).await;
            if !piece.is_empty() {
                self.piece(piece).await;
            }
        }
        Ok(())
    }

    /// Takes the lines of a piece of the body.
    async fn piece(&mut self, piece: Bytes) {
        self.budget.spend(piece.len()).await;
        let held = self.sender.held() + self.split.held() + piece.len();
        if let Err(full) = self.share.hold(held) {
            self.sender.fail(full.problem());
        }
        self.split.feed(piece);
        loop {
            let line = match self.split.next() {
                None => break,
                Some(Line::Whole(line, _)) => Some(Bytes::copy_from_slice(line)),
                Some(Line::TooLong) => None,
            };
            self.line(line.as_deref()).await;
        }
    }

    /// Takes a line; none is one that is too long.
    async fn line(&mut self, line: Option<&[u8]>) {
        self.line += 1;
        if self.sender.has_failed() {
            self.passed_over.get_or_insert(self.line);
            return;
        }
        let length = line.map_or(0, <[u8]>::len);
        let read = match line {
            None => {
                let detail = format!("the line is longer than {LINE_MOST} bytes");
                Err(RefusedLine { reason: Reason::PIECE_TOO_LARGE.as_str(), detail })
            }
            Some(blank) if blank.trim_ascii().is_empty() => return,
            Some(line) => bulk_line::read(&self.collection, line, &self.of, None),
        };
        match read {
            Ok(piece) => self.sender.push(self.line, piece).await,
            Err(refused) => {
                self.collection.ingress.metrics().rejected.inc();
                self.answer.reject(self.line, refused);
            }
        }
        self.budget.spend(length).await;
    }

    async fn end(mut self, failure: Option<Problem>) -> Response {
        if let Some(problem) = failure {
            self.sender.flush().await;
            self.sender.fail(problem);
        }
        if let Some(first) = self.passed_over {
            self.sender.pass_over(first, self.line);
        }
        self.answer.finish(self.sender.finish().await)
    }
}
