package cluster

import (
	"crypto/tls"
	"errors"

	"github.com/kloop-dev/kloop/admission/config"
	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/auth/oidc"
	"github.com/kloop-dev/kloop/auth/pki"
	"github.com/kloop-dev/kloop/kit"
	"github.com/kloop-dev/kloop/store/memory"
	"github.com/kloop-dev/kloop/strict"
)

// CheckFiles has the files of an API server that the configuration names read by the same loaders that Start uses, and says what of them
// can't be meant: a strict.Wrong. What comes of them is dropped, and nothing is written or connected to.
func (c Config) CheckFiles() error {
	_, serving := c.servingFiles(func(*tls.Certificate) {})
	_, callers := c.clientCAFile(func(*authorities) {})
	_, _, keys := c.tokenKeys()
	_, rights := c.authorizers(everyone{}, everyone{}, func(*auth.Chain) {})
	_, plugins := config.Read(c.Kit.Ways, c.AdmissionConfig)
	_, _, told := c.Audit.files(c.Kit.Ways)
	return strict.Refuse(errors.Join(c.checkEtcd(), c.checkEncryption(), serving, callers, keys, c.checkAuthn(), rights, plugins, told))
}

func (c Config) checkAuthn() (err error) {
	a := c.Authn
	if a.TokenFile != "" {
		_, err = a.fixed()
	}
	if a.ConfigFile != "" || a.OIDC.IssuerURL != "" {
		_, wrong := c.issuers(func(*oidc.Config) {})
		err = errors.Join(err, wrong)
	}
	if a.WebhookKubeconfig != "" {
		_, wrong := a.webhook(c.Kit.Ways)
		err = errors.Join(err, wrong)
	}
	return err
}

// checkEncryption has the configuration seal a store that is thrown away.
func (c Config) checkEncryption() error {
	var made kit.Sealed
	if _, err := c.encryptionFile(memory.New(), func(s kit.Sealed) { made = s }); err != nil || made == nil {
		return err
	}
	return made.Close()
}

// checkEtcd reads the certificates that a client of other etcd servers has. The client itself reads them anew for every connection, and
// takes an authority for none that it can't read.
func (c Config) checkEtcd() error {
	t := c.EtcdTLS
	var err error
	if t.CA != "" {
		_, err = load("authority of the etcd servers", func(data [][]byte) error {
			_, err := pki.ParseCerts(data[0])
			return err
		}, t.CA)
	}
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return errors.Join(err, errors.New("a certificate for etcd needs its key, and a key its certificate"))
	case t.Cert == "":
		return err
	}
	_, wrong := load("certificate for etcd", func(data [][]byte) error {
		_, err := tls.X509KeyPair(data[0], data[1])
		return err
	}, t.Cert, t.Key)
	return errors.Join(err, wrong)
}
