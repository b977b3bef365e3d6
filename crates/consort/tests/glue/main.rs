//! Collections of documents, from the outside: pieces in, documents, versions, lists and reasons out, of a real node in
//! this process.

mod bed;
mod bulk;
mod decisions;
mod example;
mod feed;
mod floods;
mod history;
mod hostile;
mod lists;
mod order;
mod queues;
mod rejections;
mod repeats;
mod several;
mod statuses;
mod tenants;
mod verify;
