//! A minimal Redis client, so that the test bed can ask and steer its servers without the client
//! library that is under test.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What a server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status or a string; bytes that are not UTF-8 are replaced.
    Text(String),
    Integer(i64),
    Array(Vec<Reply>),
    Nil,
    /// The server refused: the whole message, with its code first.
    Error(String),
}

impl Reply {
    /// The text of a status or string; nothing for any other reply.
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The items of an array; none for any other reply.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            _ => &[],
        }
    }

    /// The number; nothing for any other reply.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

/// One plain connection to a server on this machine.
#[derive(Debug)]
pub struct RespConnection {
    stream: BufReader<TcpStream>,
}

impl RespConnection {
    /// Connects to a port of 127.0.0.1, and logs in where there is a password.
    pub async fn open(port: u16, password: Option<&str>) -> io::Result<RespConnection> {
        let stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
        let mut connection = RespConnection { stream };
        if let Some(password) = password
            && let Reply::Error(refusal) = connection.call(&["AUTH", password]).await?
        {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal));
        }
        Ok(connection)
    }

    /// Sends a command and waits for its reply, without a bound of its own.
    pub async fn call(&mut self, command: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", command.len());
        for word in command {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.write_all(request.as_bytes()).await?;
        self.reply().await
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line().await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(&line))?;
        Ok(match kind {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Integer(number(rest)?),
            "$" => match usize::try_from(number(rest)?) {
                Ok(size) => self.text(size).await?,
                Err(_) => Reply::Nil,
            },
            "*" => match usize::try_from(number(rest)?) {
                Ok(size) => {
                    let mut items = Vec::new();
                    for _ in 0..size {
                        items.push(Box::pin(self.reply()).await?);
                    }
                    Reply::Array(items)
                }
                Err(_) => Reply::Nil,
            },
            _ => return Err(malformed(&line)),
        })
    }

    async fn text(&mut self, size: usize) -> io::Result<Reply> {
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes).await?;
        Ok(Reply::Text(String::from_utf8_lossy(&bytes[..size]).into_owned()))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}

fn number(text: &str) -> io::Result<i64> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a Redis reply: {line:?}"))
}
