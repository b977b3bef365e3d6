//! A Consort node as a library: read a [`Config`], start a [`Node`], stop it. A program that brings work of
//! its own starts it with [`Node::start_with`], or takes the whole command line with [`run_command_line`].
//!
//! The binary of the same name is that command line without an extension.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use consort::config::{ConfigFile, Sources};
//! use consort::{Config, Node};
//!
//! let text = "[http]\nlisten = \"127.0.0.1:0\"\n[engine]\nurl = \"memory:\"\n";
//! let file = ConfigFile { name: "inline".into(), text: text.into() };
//! let config = Config::resolve(&Sources { file: Some(file), ..Sources::default() })?;
//! let node = Node::start(config).await?;
//! println!("http://{}", node.address());
//! node.stop().await;
//! # Ok(())
//! # }
//! ```

// The command line names this crate as programs on top of it do.
extern crate self as consort;

mod command;
pub mod config;
#[cfg(doctest)]
mod documents;
mod extension;
mod glue_rows;
mod http;
mod identity;
mod load;
mod logging;
mod node;
pub mod parts;
pub mod relay;
mod rows;
mod services;
pub mod upstream;
pub mod verify;

pub use command::run_command_line;
pub use config::Config;
pub use extension::Extension;
pub use node::{Node, StartError};
pub use services::Services;
