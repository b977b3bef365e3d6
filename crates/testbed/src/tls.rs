//! A private certificate authority, and the certificate of a server on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// PEM files for `localhost` and `127.0.0.1`. Clones share the folder, which goes with the last of
/// them.
#[derive(Debug, Clone)]
pub struct Tls {
    folder: Arc<TempDir>,
}

impl Tls {
    /// Makes a new authority and a server certificate signed by it.
    pub fn new() -> Tls {
        let folder = tempfile::Builder::new()
            .prefix("consort-tls-")
            .tempdir()
            .expect("a temporary folder can be made");
        let tls = Tls { folder: Arc::new(folder) };
        tls.issue().expect("a certificate can be made");
        tls
    }

    fn issue(&self) -> Result<(), rcgen::Error> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "Consort test bed authority");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority_key = KeyPair::generate()?;
        let authority_certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);

        let mut server = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        server.distinguished_name.push(DnType::CommonName, "localhost");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.use_authority_key_identifier_extension = true;
        let server_key = KeyPair::generate()?;
        let server_certificate = server.signed_by(&server_key, &issuer)?;

        let write = |path: PathBuf, text: String| {
            fs::write(path, text).expect("a file of the temporary folder can be written")
        };
        write(self.ca(), authority_certificate.pem());
        write(self.certificate(), server_certificate.pem());
        write(self.key(), server_key.serialize_pem());
        Ok(())
    }

    /// What a server of a test's own takes connections by.
    pub fn acceptor(&self) -> TlsAcceptor {
        let certificates = CertificateDer::pem_file_iter(self.certificate());
        let certificates = certificates.and_then(Iterator::collect).expect("certificates");
        let key = PrivateKeyDer::from_pem_file(self.key()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .expect("a key that fits its certificate");
        TlsAcceptor::from(Arc::new(config))
    }

    /// The folder of the three files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The authority's certificate: what a client is told to trust.
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("server.pem")
    }

    /// The server's private key.
    pub fn key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }
}

impl Default for Tls {
    fn default() -> Tls {
        Tls::new()
    }
}
