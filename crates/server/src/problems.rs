//! Every kind of problem that an answer can name, with its status, its meaning and its remedy. The reference page and
//! the entries of the troubleshooting page are compared with [`ALL`].
//!
//! A new kind is one entry here: there is no other way to make a [`Problem`](crate::Problem).

use axum::http::StatusCode;

/// A kind of problem. Its name becomes `urn:consort:problem:NAME` in the answer.
#[derive(Debug, PartialEq, Eq)]
pub struct ProblemKind {
    /// Words joined by hyphens, for programs. A name never changes its meaning.
    pub name: &'static str,
    pub status: StatusCode,
    /// One sentence: what has happened.
    pub meaning: &'static str,
    /// One sentence: what to do about it.
    pub remedy: &'static str,
}

impl ProblemKind {
    /// The `type` of its answers.
    pub fn urn(&self) -> String {
        format!("urn:consort:problem:{}", self.name)
    }
}

macro_rules! problems {
    ($($constant:ident = $name:literal, $status:ident, $meaning:literal, $remedy:literal;)*) => {
        $(
            #[doc = $meaning]
            pub const $constant: &ProblemKind = &ProblemKind {
                name: $name,
                status: StatusCode::$status,
                meaning: $meaning,
                remedy: $remedy,
            };
        )*

        /// All kinds, by name.
        pub const ALL: &[&ProblemKind] = &[$($constant),*];
    };
}

problems! {
    AT_WORK = "at-work", CONFLICT,
        "The role to resolve is at work, so there is nothing to resolve.",
        "Resolve a role only while `consort status` lists it as stopped.";
    BAD_DECISION = "bad-decision", BAD_REQUEST,
        "The body of a resolve request is not a valid decision.",
        "Use `consort resolve`, or send the JSON that the detail describes.";
    BAD_HOST = "bad-host", BAD_REQUEST,
        "The request has no `Host` header, or more than one, or one that is not a host.",
        "Send `Host: HOST:PORT` once, with the node's address.";
    BAD_PATH = "bad-path", BAD_REQUEST,
        "A part of the path is not valid text or not a number where one is needed.",
        "Correct the path; the detail names the part.";
    BAD_RETIREMENT = "bad-retirement", BAD_REQUEST,
        "The body of a drain request is not the empty JSON object.",
        "Use `consort drain`, or send `{}`.";
    BEYOND_THE_END = "beyond-the-end", NOT_FOUND,
        "The answer is an array, and `position` is not less than its length.",
        "Ask for a smaller position; the first one is 0.";
    BODIES_MEMORY = "bodies-memory", SERVICE_UNAVAILABLE,
        "The bodies of running requests use all memory that the node sets aside for them.",
        "Send the request again after `Retry-After`, or send it to another node.";
    BODY = "body", BAD_REQUEST,
        "The connection closed before the whole body had arrived.",
        "Send the request again; if it happens often, look for a proxy that cuts connections.";
    BODY_TIMEOUT = "body-timeout", REQUEST_TIMEOUT,
        "The body did not arrive in time.",
        "Send smaller bodies, or raise `body_timeout` in `[http]`.";
    BODY_TOO_LARGE = "body-too-large", PAYLOAD_TOO_LARGE,
        "The body is larger than the node accepts.",
        "Send several smaller requests, or raise `max_body` in `[http]`.";
    BROKEN_ENCODING = "broken-encoding", BAD_REQUEST,
        "The body is not the compressed data that its `Content-Encoding` promises.",
        "Compress the body again, or send it without compression.";
    CONDITION = "condition", BAD_REQUEST,
        "`If-Match` or `If-None-Match` is not a condition on a document's version.",
        "Send the `ETag` of an answer as it was, or `*`.";
    CONDITION_FAILED = "condition-failed", PRECONDITION_FAILED,
        "The document is not at the version that the condition of the piece names.",
        "Read the document, decide again, and send a new piece with the new `ETag`.";
    CONTENT_ENCODING = "content-encoding", UNSUPPORTED_MEDIA_TYPE,
        "The body has an encoding that the route does not accept.",
        "Send the body as it is, or with `Content-Encoding: gzip` where the route takes lines.";
    CONTENT_TYPE = "content-type", UNSUPPORTED_MEDIA_TYPE,
        "The body has a media type that the route does not accept.",
        "Send the `Content-Type` that the detail names.";
    CURSOR_GONE = "cursor-gone", GONE,
        "The rows behind the cursor are no longer kept.",
        "Read the view or list the documents, then follow the feed from there, or read from the oldest row that is kept.";
    DB_ANSWER_TOO_LARGE = "db-answer-too-large", UNPROCESSABLE_ENTITY,
        "The rows of the answer are more than `max_rows`, or larger than `max_answer`.",
        "Select less of it, in pages with `LIMIT`, or raise the setting in `[db.NAME]`.";
    DB_CONSTRAINT = "db-constraint", CONFLICT,
        "A constraint of the schema forbids the change; `code` names its kind.",
        "Read the present rows and decide again: the same request fails as long as they stay.";
    DB_ERA = "db-era", CONFLICT,
        "The position is of an era of the database that a restore has ended.",
        "Forget the position and read without `Consort-After`: what was written before the restore may be gone.";
    DB_EXPECTATION = "db-expectation", CONFLICT,
        "A statement changed another number of rows than its `changes` says, so nothing was changed.",
        "Read the present rows and decide again.";
    DB_FULL = "db-full", INSUFFICIENT_STORAGE,
        "The database has reached `max_size`, or the disk of its leader is full.",
        "Delete rows, raise `max_size` in `[db.NAME]`, or make room on the disk.";
    DB_KEY_REUSED = "db-key-reused", UNPROCESSABLE_ENTITY,
        "The `Idempotency-Key` was used with other statements within the last hour.",
        "Draw a new key for each write, and keep it for the repeats of that write alone.";
    DB_NO_WORKER = "db-no-worker", SERVICE_UNAVAILABLE,
        "No worker of the database could take the request in time.",
        "Send the request again after `Retry-After`; if it lasts, look at `consort db status`.";
    DB_NOT_FOUND = "db-not-found", NOT_FOUND,
        "There is no database or worker of this name.",
        "Use a name that `GET /db` lists, or declare `[db.NAME]` on all nodes.";
    DB_REQUEST = "db-request", BAD_REQUEST,
        "The body is malformed, or SQLite or Consort refuses the SQL.",
        "Correct the request; `statement` has the number of the statement, from 0.";
    DB_SCHEMA = "db-schema", UNPROCESSABLE_ENTITY,
        "The table could not be replicated.",
        "Change the column that the detail names; it has the corrected line.";
    DB_STOPPED = "db-stopped", SERVICE_UNAVAILABLE,
        "The database takes no writes: its store lost entries that were acknowledged.",
        "Look at `consort db status`, then decide with `consort db resolve`.";
    DB_TIME_LIMIT = "db-time-limit", UNPROCESSABLE_ENTITY,
        "The statements ran longer than the settings allow.",
        "Add an index or do less in one request, or raise the setting in `[db.NAME]`.";
    DB_TOO_LARGE = "db-too-large", PAYLOAD_TOO_LARGE,
        "A value, a statement, the changes of one write or a restored file are above their limit.",
        "Split the request, and keep large values in an object store.";
    DB_UNKNOWN_OUTCOME = "db-unknown-outcome", SERVICE_UNAVAILABLE,
        "Whether the write is stored is not known.",
        "Send it again with the same `Idempotency-Key`; without one, read whether it is there.";
    DB_WRITER = "db-writer", INTERNAL_SERVER_ERROR,
        "The request made the writer of the database fail.",
        "Do not send it again; report it with the lines of the leader's log.";
    DEADLINE = "deadline", GATEWAY_TIMEOUT,
        "The answer was not ready within `wait` of its space; the computation goes on.",
        "Ask again after `Retry-After`, or raise `wait` in `[once.NAME]`.";
    DEFECT = "defect", INTERNAL_SERVER_ERROR,
        "Consort itself made a mistake.",
        "Report it with the lines of the node's log; other requests are not affected.";
    DELETED = "deleted", GONE,
        "The document was deleted.",
        "Begin a new life with PUT, or set `revive` in `[glue.NAME]` if merge patches should.";
    DUPLICATE_NAME = "duplicate-name", BAD_REQUEST,
        "An object in the piece names a member twice.",
        "Name each member once.";
    EVENT_TOO_LARGE = "event-too-large", PAYLOAD_TOO_LARGE,
        "One event is larger than the log can store.",
        "Split the event, or store the large part elsewhere and send a reference.";
    FOREIGN_ORIGIN = "foreign-origin", FORBIDDEN,
        "A web page of another origin sent the request.",
        "Add its origin to `origins` in `[http]`, or send an access token.";
    GAP = "gap", CONFLICT,
        "A number before this piece never came, and the collection rejects the pieces behind a gap.",
        "Send the missing pieces in time, or set `on_gap` or `gap_for` in `[glue.NAME]`.";
    GENERATION = "generation", BAD_REQUEST,
        "`Consort-Generation` is not a generation.",
        "Send the header as an earlier answer had it, or leave it out.";
    GENERATION_GONE = "generation-gone", PRECONDITION_FAILED,
        "The generation that the request insists on is not kept any more.",
        "Ask without `Consort-Generation` for the current answer.";
    HALTED = "halted", LOCKED,
        "The document is halted, and there is no room for more pieces behind it.",
        "Retry or discard the piece that halted the document, then send this one again with a new number.";
    HEADER_TIMEOUT = "header-timeout", REQUEST_TIMEOUT,
        "The headers of the request did not arrive in time.",
        "Send the headers in one piece, or raise `header_timeout` in `[http]`.";
    IDEMPOTENCY_KEY = "idempotency-key", BAD_REQUEST,
        "`Idempotency-Key` is not a valid key, or the request has several events.",
        "Send one event with a key of the form that the detail describes.";
    INFLATED_TOO_LARGE = "inflated-too-large", PAYLOAD_TOO_LARGE,
        "The decompressed body is larger than the node accepts.",
        "Send several smaller requests; the detail says how many lines were stored.";
    INVALID_ATTRIBUTE_VALUE = "invalid-attribute-value", BAD_REQUEST,
        "An attribute of an XML patch has a value that it cannot have.",
        "Correct the attribute that the detail names.";
    INVALID_BODY = "invalid-body", BAD_REQUEST,
        "The body is not the JSON that the route needs.",
        "Send the JSON that the detail describes.";
    INVALID_CHARACTER_SET = "invalid-character-set", BAD_REQUEST,
        "The XML is not in UTF-8.",
        "Convert it to UTF-8.";
    INVALID_CURSOR = "invalid-cursor", BAD_REQUEST,
        "`after` or `Last-Event-ID` is not a cursor of this feed.",
        "Send the value of `Consort-Cursor` of an earlier page, or `now`, or leave it out.";
    INVALID_DIFF_FORMAT = "invalid-diff-format", BAD_REQUEST,
        "The XML patch is not a well-formed patch document.",
        "Correct the patch at the place that the detail names.";
    INVALID_ENTITY_DECLARATION = "invalid-entity-declaration", BAD_REQUEST,
        "The XML has a DOCTYPE or declares entities.",
        "Send it without, with entities replaced by their text.";
    INVALID_EVENT = "invalid-event", BAD_REQUEST,
        "The event does not match the fields of its stream.",
        "Correct the field that the detail names, or change `fields` in `[stream.NAME]`.";
    INVALID_ID = "invalid-id", BAD_REQUEST,
        "The id of the document is not valid.",
        "Send 1 to 512 bytes of UTF-8 as one percent-encoded segment of the path.";
    INVALID_NAMESPACE_PREFIX = "invalid-namespace-prefix", CONFLICT,
        "A prefix in an XML patch is not declared, or cannot be used in the document.",
        "Declare the prefix in the patch.";
    INVALID_NAMESPACE_URI = "invalid-namespace-uri", CONFLICT,
        "A namespace URI is not valid at its place.",
        "Correct the URI that the detail names.";
    INVALID_NODE_TYPES = "invalid-node-types", CONFLICT,
        "The content of an XML operation is not of the kind that it needs.",
        "Replace an element by one element, a text by a text, and so on.";
    INVALID_PATCH_DIRECTIVE = "invalid-patch-directive", CONFLICT,
        "An operation of an XML patch cannot be carried out as it stands.",
        "Correct the operation; the detail names the part.";
    INVALID_QUERY = "invalid-query", BAD_REQUEST,
        "A parameter of the query is unknown, missing or has a wrong value.",
        "Correct the parameter that the detail names.";
    INVALID_ROOT_ELEMENT_OPERATION = "invalid-root-element-operation", CONFLICT,
        "An XML operation would remove the document's root or give it a sibling.",
        "Replace the root, or use DELETE or PUT.";
    INVALID_WHITESPACE_DIRECTIVE = "invalid-whitespace-directive", CONFLICT,
        "There is no white space where `ws` of a `remove` says so.",
        "Leave `ws` out, or correct it.";
    INVALID_XML_PROLOG_OPERATION = "invalid-xml-prolog-operation", CONFLICT,
        "An XML operation would change the prolog in a way that XML forbids.",
        "Put the content inside the root element.";
    KEY_REUSED = "key-reused", UNPROCESSABLE_ENTITY,
        "The key belongs to another event or piece, so this one does not count.",
        "Give each event and each piece a key of its own.";
    KEY_TOO_LONG = "key-too-long", URI_TOO_LONG,
        "The path and the query make a key that is too long.",
        "Send long parameters in the body of a POST.";
    LAST_NODE = "last-node", CONFLICT,
        "The node to retire is the last one of the cluster.",
        "Start another node first, or stop this one with SIGTERM.";
    LATE = "late", CONFLICT,
        "The number of the piece was given up, and the pieces behind it were applied.",
        "Send the change again with a new number if it still matters.";
    MALFORMED = "malformed", BAD_REQUEST,
        "The body is not what its type says.",
        "Correct the body at the place that the detail names.";
    METHOD_NOT_ALLOWED = "method-not-allowed", METHOD_NOT_ALLOWED,
        "The path does not accept the method.",
        "Use a method of the header `Allow`.";
    METRICS = "metrics", INTERNAL_SERVER_ERROR,
        "The metrics could not be written.",
        "Report it with the lines of the node's log.";
    MISDIRECTED = "misdirected", MISDIRECTED_REQUEST,
        "The node does not know itself by the name in `Host`.",
        "Use the node's address, or add the name to `hosts` in `[http]`.";
    MISSING_PATH = "missing-path", CONFLICT,
        "A JSON Patch operation names a place that the document does not have.",
        "Read the document and correct the `path` or `from` that the detail names.";
    MOVE_INTO_ITSELF = "move-into-itself", UNPROCESSABLE_ENTITY,
        "A `move` operation would move a value into itself.",
        "Correct `from` or `path`.";
    MOVED = "moved", SERVICE_UNAVAILABLE,
        "The work moved to another node while the request was on its way.",
        "Send the request again after `Retry-After`.";
    NO_ACCESS = "no-access", UNAUTHORIZED,
        "The request has no access token, or a wrong one.",
        "Send `Authorization: Bearer TOKEN` with one of `tokens` in `[http]`.";
    NO_DIFFERENCE = "no-difference", NOT_ACCEPTABLE,
        "The difference of two versions is a JSON Patch, and the collection has XML documents.",
        "Read both versions and compare them.";
    NO_DOCUMENT = "no-document", NOT_FOUND,
        "There is no such document, and this piece does not create one.",
        "Create the document with PUT, or set `template` or `absent` in `[glue.NAME]`.";
    NO_HISTORY = "no-history", NOT_FOUND,
        "The collection keeps no old versions.",
        "Set `history` in `[glue.NAME]` to the number of versions to keep.";
    NO_OWNER = "no-owner", SERVICE_UNAVAILABLE,
        "No node owns the work at the moment, for example within the lease of a dead node.",
        "Send the request again after `Retry-After`; if it lasts, look at `consort status`.";
    NO_PARTITION = "no-partition", CONFLICT,
        "The role has no partition of a stream, so it cannot be resolved.",
        "Resolve a role that `consort status` lists as stopped.";
    NO_PIECE = "no-piece", BAD_REQUEST,
        "None of the lines in a bulk request is a piece.",
        "Correct the lines; `rejections` has the reasons.";
    NO_SUCH_COLLECTION = "no-such-collection", NOT_FOUND,
        "There is no collection of this name.",
        "Use a name that `GET /glue` lists.";
    NO_SUCH_FEED = "no-such-feed", NOT_FOUND,
        "There is no feed of this name.",
        "Use the name of a view with a window; the detail lists the feeds.";
    NO_SUCH_NODE = "no-such-node", NOT_FOUND,
        "The cluster has no node of this name.",
        "Use a name that `consort status` lists.";
    NO_SUCH_ONCE = "no-such-once", NOT_FOUND,
        "The config has no `[once.NAME]` of this name.",
        "Use a name that the detail lists, or declare the space on all nodes.";
    NO_SUCH_ROLE = "no-such-role", NOT_FOUND,
        "The cluster has no role of this name.",
        "Use a name that `consort status --roles` lists.";
    NO_SUCH_SINK = "no-such-sink", NOT_FOUND,
        "The config has no `[sink.NAME]` of this name.",
        "Use a name that the detail lists, or declare the sink on all nodes.";
    NO_SUCH_STREAM = "no-such-stream", NOT_FOUND,
        "The config has no `[stream.NAME]` of this name.",
        "Use a name that `GET /streams` lists, or declare the stream on all nodes.";
    NO_SUCH_VIEW = "no-such-view", NOT_FOUND,
        "The config has no `[view.NAME]` of this name.",
        "Use a name that `GET /streams` lists, or declare the view on all nodes.";
    NO_VERSION = "no-version", NOT_FOUND,
        "The document has no such version, or it is no longer kept.",
        "Use a version that `versions` lists, or raise `history` in `[glue.NAME]`.";
    NO_WINDOWS = "no-windows", NOT_FOUND,
        "The view has no windows, so it has no late events.",
        "Ask a view with `window`, or ask for its rejects.";
    NOT_ALL_STORED = "not-all-stored", SERVICE_UNAVAILABLE,
        "Some of the events were stored before one failed; the status is that of the failure.",
        "Send the events behind `accepted` again; with an `id` field, send all of them again.";
    NOT_AN_ARRAY = "not-an-array", BAD_REQUEST,
        "The request names a position, and the answer is not a JSON array.",
        "Ask without `position` for the whole answer.";
    NOT_FOUND = "not-found", NOT_FOUND,
        "The node serves nothing at this path.",
        "Use a path that `GET /` lists.";
    NOT_HALTED = "not-halted", CONFLICT,
        "The place is not that of a piece that halts the document.",
        "Read the document's state again; another operator may have decided already.";
    NOT_JOINED = "not-joined", SERVICE_UNAVAILABLE,
        "The node has not joined its cluster yet.",
        "Wait until `GET /readyz` answers 200.";
    NOT_PARKED = "not-parked", NOT_FOUND,
        "The sink has not parked this document.",
        "Use a document that `GET /sinks/SINK/parked` shows.";
    NOT_REACHED = "not-reached", SERVICE_UNAVAILABLE,
        "The view or collection has not reached the position in `Consort-After` in time.",
        "Ask again after `Retry-After`; if it lasts, look at the lag in `consort status`.";
    NOT_READY = "not-ready", SERVICE_UNAVAILABLE,
        "The node cannot serve requests yet; the detail says what it waits for.",
        "Wait, or repair the engine that the detail names.";
    NOT_STORED = "not-stored", SERVICE_UNAVAILABLE,
        "The event or piece was not stored.",
        "Send it again after `Retry-After`, with the same `Idempotency-Key` if it had one.";
    NUMBER_WOULD_CHANGE = "number-would-change", BAD_REQUEST,
        "A number in the piece would not keep its value.",
        "Send it as a text.";
    OPERATOR_ONLY = "operator-only", FORBIDDEN,
        "The path is the operator's, and the access token is a tenant's.",
        "Send one of `tokens` in `[http]`.";
    OTHER_TENANT = "other-tenant", FORBIDDEN,
        "The access token belongs to another tenant than `Consort-Tenant` names.",
        "Leave `Consort-Tenant` out, or send that tenant's token.";
    OUTCOME_UNKNOWN = "outcome-unknown", SERVICE_UNAVAILABLE,
        "The outcome is not known: the request may have taken effect.",
        "Send it again with the same `Idempotency-Key` or id, so that it takes effect once.";
    OVERLOADED = "overloaded", SERVICE_UNAVAILABLE,
        "The gate of the stream refused the request before any of it was stored.",
        "Send it again after `Retry-After`; if it lasts, add nodes or look at the metrics of the gate.";
    PARAMETERS = "parameters", BAD_REQUEST,
        "The parameters are not a JSON object.",
        "Send one JSON object as the body.";
    PARAMETERS_TOO_LARGE = "parameters-too-large", PAYLOAD_TOO_LARGE,
        "The parameters are larger than a key may be.",
        "Send fewer parameters.";
    PATH = "path", BAD_REQUEST,
        "The path has a part that is not allowed, or a value that its field does not accept.",
        "Correct the path; the detail names the part.";
    PEER_UNREACHED = "peer-unreached", SERVICE_UNAVAILABLE,
        "The node that owns the work could not be reached, so nothing has changed.",
        "Send the request again after `Retry-After`; if it lasts, check `advertise` in `[http]` and the network.";
    PIECE_TOO_DEEP = "piece-too-deep", PAYLOAD_TOO_LARGE,
        "The piece is nested deeper than any document may be.",
        "Send a document of at most 100 levels.";
    PIECE_TOO_LARGE = "piece-too-large", PAYLOAD_TOO_LARGE,
        "The piece is larger than any piece may be.",
        "Send it as several smaller pieces.";
    POSITION = "position", BAD_REQUEST,
        "`position` or `Consort-After` is not a position.",
        "Send a number from 0, or `Consort-After` as an earlier answer had it in `Consort-Position`.";
    PRECISION = "precision", BAD_REQUEST,
        "`precision` is not a unit of time.",
        "Use one of the units that the detail lists.";
    PURGE = "purge", BAD_REQUEST,
        "The purge names neither one key nor one tag.",
        "Send a body of the form that the detail shows.";
    QUERY = "query", BAD_REQUEST,
        "The request has a query, and the address of the upstream has no place for it.",
        "Ask without a query, or add `{query}` to `upstream` in `[once.NAME]`.";
    QUEUED = "queued", LOCKED,
        "The piece is stored, and waits behind a halted document.",
        "Retry or discard the piece that halted the document.";
    QUOTA = "quota", TOO_MANY_REQUESTS,
        "The tenant has as many unapplied pieces as its quota allows.",
        "Send it again after `Retry-After`.";
    RESOLVE_FAILED = "resolve-failed", SERVICE_UNAVAILABLE,
        "The store or the log failed while the partition was resolved.",
        "Run `consort resolve` again when the engine answers.";
    STORE_FAILED = "store-failed", SERVICE_UNAVAILABLE,
        "The store did not answer, or refused.",
        "Ask again; if it lasts, look at the engine and at the node's log.";
    SWITCH = "switch", BAD_REQUEST,
        "A switch in the query of the sample upstream has a wrong value.",
        "Use the switches that `consort sample-upstream --help` lists.";
    TENANT = "tenant", BAD_REQUEST,
        "`Consort-Tenant` does not name one tenant.",
        "Send a name of 1 to 64 of `a-z A-Z 0-9 _ - .` once.";
    TEST_FAILED = "test-failed", CONFLICT,
        "A `test` operation of the JSON Patch failed.",
        "Read the document and decide again.";
    TOLD_TO_FAIL = "told-to-fail", SERVICE_UNAVAILABLE,
        "The sample upstream failed because the query told it to.",
        "Ask without `fail`.";
    TOO_COSTLY = "too-costly", UNPROCESSABLE_ENTITY,
        "The piece visits or moves more nodes than a piece may.",
        "Use more exact selectors or paths, or send a whole document.";
    TOO_DEEP = "too-deep", UNPROCESSABLE_ENTITY,
        "The document would be nested deeper than 100 levels.",
        "Make the document flatter.";
    TOO_LARGE = "too-large", UNPROCESSABLE_ENTITY,
        "The document would be larger than the collection allows.",
        "Make the document smaller, or raise `max_document` in `[glue.NAME]`.";
    TOO_MANY_CONNECTIONS = "too-many-connections", SERVICE_UNAVAILABLE,
        "All connections of the node are in use.",
        "Ask another node, reuse connections, or raise `max_connections` in `[http]`.";
    TOO_MANY_OPERATIONS = "too-many-operations", PAYLOAD_TOO_LARGE,
        "The piece has more operations than any piece may have.",
        "Send it as several pieces.";
    TOO_MANY_SOURCES = "too-many-sources", UNPROCESSABLE_ENTITY,
        "The document has pieces of as many sources as it may have.",
        "Use fewer names of sources.";
    TOO_MANY_SUBSCRIBERS = "too-many-subscribers", SERVICE_UNAVAILABLE,
        "The node has as many subscribers of feeds as it accepts.",
        "Subscribe at another node, or raise the setting that the detail names.";
    TOO_MANY_WAITERS = "too-many-waiters", SERVICE_UNAVAILABLE,
        "As many requests as the node accepts wait for answers already.",
        "Ask another node, ask again later, or raise `waiters` and `waiters_per_key` in `[once]`.";
    TRANSFER_ENCODING = "transfer-encoding", NOT_IMPLEMENTED,
        "The request has a `Transfer-Encoding` other than `chunked`.",
        "Send the body with `Content-Length`, or chunked.";
    TWO_LENGTHS = "two-lengths", BAD_REQUEST,
        "The request states the length of its body in two ways.",
        "Send either `Content-Length` or `Transfer-Encoding`; a proxy may have added the other.";
    UNLOCATED_NODE = "unlocated-node", CONFLICT,
        "A selector of an XML patch finds no node, or several.",
        "Make the selector find exactly one node; the detail says how many it found.";
    UNREADABLE_ANSWER = "unreadable-answer", INTERNAL_SERVER_ERROR,
        "The stored answer has a format that this version cannot read.",
        "Purge the answer with DELETE, or run the same version on all nodes.";
    UNSUPPORTED_ID_FUNCTION = "unsupported-id-function", UNPROCESSABLE_ENTITY,
        "A selector uses `id()`, which needs a schema.",
        "Select by an attribute: `*[@id='v']`.";
    UNSUPPORTED_XML_ID = "unsupported-xml-id", UNPROCESSABLE_ENTITY,
        "The XML patch needs `xml:id`, which is not supported.",
        "Select by another attribute.";
    UPSTREAM_FAILED = "upstream-failed", BAD_GATEWAY,
        "The upstream could not be asked.",
        "Read the detail, then look at the upstream.";
    UPSTREAM_MALFORMED = "upstream-malformed", BAD_GATEWAY,
        "The upstream answered with something that is not a valid HTTP answer.",
        "Look at the upstream; the detail says what is wrong.";
    UPSTREAM_REFUSED = "upstream-refused", BAD_GATEWAY,
        "The upstream answered with a status that means failure.",
        "Look at the upstream; the failure is kept for `errors_for` of `[once.NAME]`.";
    UPSTREAM_TIMEOUT = "upstream-timeout", GATEWAY_TIMEOUT,
        "The upstream did not answer within `timeout` of its space.",
        "Ask again, or raise `timeout` in `[once.NAME]`.";
    UPSTREAM_TOO_LARGE = "upstream-too-large", BAD_GATEWAY,
        "The answer of the upstream is larger than `max_value` of its space.",
        "Ask for less, or raise `max_value` in `[once.NAME]`.";
    UPSTREAM_UNREACHABLE = "upstream-unreachable", BAD_GATEWAY,
        "The node cannot connect to the upstream.",
        "Start the upstream, or correct `upstream` in `[once.NAME]`.";
}

/// The kind of this name.
pub(crate) fn find(name: &str) -> Option<&'static ProblemKind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_in_order_and_each_name_is_made_of_words() {
        for pair in ALL.windows(2) {
            let key = |kind: &ProblemKind| kind.name.replace('-', " ");
            assert!(key(pair[0]) < key(pair[1]), "{} stands before {}", pair[0].name, pair[1].name);
        }
        for kind in ALL {
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(kind.name.chars().all(is_plain), "{}", kind.name);
            assert!(
                kind.status.is_client_error() || kind.status.is_server_error(),
                "{}",
                kind.name
            );
            for sentence in [kind.meaning, kind.remedy] {
                assert!(sentence.ends_with('.'), "{}: {sentence}", kind.name);
            }
        }
    }
}
