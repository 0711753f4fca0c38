package cluster

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// issuerFigures tell when the keys of issuers of tokens were fetched, under upstream's names. They are read when they are scraped.
type issuerFigures struct{ d *frontDoor }

var (
	keysFetched = prometheus.NewDesc("apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
		"When the keys of an issuer were last fetched, and when that last failed.",
		[]string{"result", "jwt_issuer_hash", "apiserver_id_hash"}, nil)
	keysHeld = prometheus.NewDesc("apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
		"The keys of an issuer that were last fetched, as a hash.", []string{"jwt_issuer_hash", "apiserver_id_hash", "hash"}, nil)
)

// Describe implements prometheus.Collector.
func (f issuerFigures) Describe(to chan<- *prometheus.Desc) { to <- keysFetched; to <- keysHeld }

// Collect implements prometheus.Collector.
func (f issuerFigures) Collect(to chan<- prometheus.Metric) {
	c := f.d.outside.now.Load()
	if c == nil || c.Issuers == nil || !f.d.set.Features().On("StructuredAuthenticationConfigurationJWKSMetrics") {
		return
	}
	own := hashed(self(f.d.c.cfg).ID())
	for _, x := range c.Issuers.Fetches() {
		issuer := hashed(x.Issuer)
		for result, at := range map[string]time.Time{"success": x.OK, "failure": x.Failed} {
			if !at.IsZero() {
				gauge(to, keysFetched, float64(at.UnixNano())/1e9, result, issuer, own)
			}
		}
		if !x.OK.IsZero() {
			gauge(to, keysHeld, 1, issuer, own, fmt.Sprintf("sha256:%x", x.Sum))
		}
	}
}

func hashed(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }
