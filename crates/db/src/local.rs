//! How far a file is: written in the same local transaction as the changes, so the file says it by itself
//! (H7).

use consort_kernel::Digest;
use rusqlite::{Connection, OptionalExtension};

use crate::hash::{ContentHash, SchemaChain};
use crate::position::DbPosition;

/// The state of a worker's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// The era of the file.
    pub era: u64,
    /// The last index applied.
    pub index: u64,
    /// The digest of the entry there; `None` at index 0.
    pub digest: Option<Digest>,
    /// The schema.
    pub chain: SchemaChain,
    /// The contents.
    pub content: ContentHash,
}

impl FileState {
    /// An empty file.
    pub fn empty(era: u64) -> Self {
        FileState {
            era,
            index: 0,
            digest: None,
            chain: SchemaChain::START,
            content: ContentHash::EMPTY,
        }
    }

    /// Where the file stands.
    pub fn position(&self) -> DbPosition {
        DbPosition { era: self.era, index: self.index }
    }

    /// Reads the state; `None` if the file is new.
    pub fn read(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT era, idx, digest, chain, content FROM _consort_local WHERE id = 1";
        let mut statement = connection.prepare_cached(sql)?;
        let state = statement.query_row([], |row| {
            let digest: Option<[u8; Digest::LENGTH]> = row.get(2)?;
            Ok(FileState {
                era: row.get::<_, i64>(0)? as u64,
                index: row.get::<_, i64>(1)? as u64,
                digest: digest.map(Digest),
                chain: SchemaChain(row.get(3)?),
                content: ContentHash(u128::from_be_bytes(row.get(4)?)),
            })
        });
        state.optional()
    }

    /// Writes the state within the open transaction.
    pub fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "INSERT INTO _consort_local (id, era, idx, digest, chain, content)
            VALUES (1, ?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (id) DO UPDATE SET era = ?1, idx = ?2, digest = ?3, chain = ?4, content = ?5";
        let digest = self.digest.map(|digest| digest.0);
        let content = self.content.0.to_be_bytes();
        // Both numbers count commits and stay far below 2^63.
        let (era, index) = (self.era as i64, self.index as i64);
        let mut statement = connection.prepare_cached(sql)?;
        statement.execute((era, index, digest, self.chain.0, content))?;
        Ok(())
    }
}
