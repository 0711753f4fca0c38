package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kloop-dev/kloop/auth/authn"
	"github.com/kloop-dev/kloop/auth/pki"
)

// CertsPath is the page on which the certificates of a cluster are listed and exchanged: GET tells of this server's, ?all of all servers';
// POST of renew, rotate or finish below it acts on all servers. Servers ask each other to adopt.
const CertsPath = "/kloop/certs"

// issuedLife bounds the use of certificates that were issued at the start and are good for a year.
const issuedLife = 120 * 24 * time.Hour

// lately is for how long a certificate that was used counts as in use: agents renew their leases every ten seconds.
const lately = 10 * time.Minute

// A keyDesk tells of this server's certificates and exchanges its keys.
type keyDesk struct {
	*frontDoor
	busy sync.Mutex // one exchange at a time
}

// Certs tells of the certificates of a server, and of those that clients showed it.
type Certs struct {
	Server       string        `json:"server"`
	Exchanging   bool          `json:"exchanging"` // two authorities are believed
	Authority    []byte        `json:"authority"`  // DER of the one that signs
	Certificates []Cert        `json:"certificates"`
	Clients      []authn.Shown `json:"clients"`
	Watched      int64         `json:"watchedSeconds"`  // for how long Clients has been kept: since the start, or the last exchange
	Error        string        `json:"error,omitempty"` // why nothing is known of this server
}

// A Cert is one certificate of a server.
type Cert struct {
	What  string    `json:"what"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// Outdated are the clients that a certificate of another authority than the present one lets in, and that used it lately.
func (c *Certs) Outdated(now time.Time) (users []string) {
	for _, s := range c.Clients {
		if !bytes.Equal(s.Root, c.Authority) && now.Sub(s.Used) < lately && !slices.Contains(users, s.User) {
			users = append(users, s.User)
		}
	}
	slices.Sort(users)
	return users
}

// certificates answers below CertsPath.
func (d *keyDesk) certificates(w http.ResponseWriter, r *http.Request) {
	what := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, CertsPath), "/")
	if r.Method == http.MethodGet && what == "" {
		list := []*Certs{d.ownCerts()}
		if r.URL.Query().Has("all") {
			list = d.allCerts(r.Context())
		}
		reply(w, list)
		return
	}
	act := map[string]func(context.Context, *http.Request) error{"renew": d.renewAll, "rotate": d.rotateAll,
		"finish": d.finishAll, "adopt": d.adopt}[what]
	if r.Method != http.MethodPost || act == nil {
		refuse(w, apierrors.NewMethodNotSupported(noResource, strings.ToLower(r.Method)))
		return
	}
	d.busy.Lock()
	defer d.busy.Unlock()
	if err := act(r.Context(), r); err != nil {
		refuse(w, apierrors.NewConflict(noResource, "certs", err))
		return
	}
	d.log.Info("certificates", "done", what)
	reply(w, []*Certs{d.ownCerts()})
}

// stillBelieved stands behind the name of an authority that signs no more.
const stillBelieved = " before, still believed"

// ownCerts tells of this server.
func (d *keyDesk) ownCerts() *Certs {
	c := d.c
	out := &Certs{Server: c.address, Exchanging: c.keys.Exchanging(), Authority: c.keys.CA.Cert().Raw, Clients: c.seen.Shown(),
		Watched: int64(c.keys.CA.Age() / time.Second)}
	add := func(what string, cert *x509.Certificate) {
		out.Certificates = append(out.Certificates, Cert{what, cert.NotBefore, cert.NotAfter})
	}
	for _, a := range []struct {
		name string
		*pki.Authority
	}{{"authority", c.keys.CA}, {"authority of the front proxy", c.keys.FrontProxy}} {
		for _, cert := range a.Trusted() {
			if cert.Equal(a.Cert()) {
				add(a.name, cert)
			} else {
				add(a.name+stillBelieved, cert)
			}
		}
	}
	if leaf := c.cred.leaf(); leaf != nil {
		add("of the API, from a file", leaf)
	} else if pair, err := c.keys.GetCertificate(nil); err == nil {
		add("of the API", pair.Leaf)
	}
	return out
}

// allCerts tells of this server, and of the others.
func (d *keyDesk) allCerts(ctx context.Context) []*Certs {
	list := []*Certs{d.ownCerts()}
	for _, at := range d.servers() {
		var more []*Certs
		err := d.askServer(ctx, http.MethodGet, at, "", nil, &more)
		if err != nil || len(more) != 1 {
			more = []*Certs{{Server: at, Error: fmt.Sprint(err)}}
		}
		more[0].Server = at
		list = append(list, more...)
	}
	return list
}

// askServer asks another server below CertsPath.
func (d *keyDesk) askServer(ctx context.Context, method, at, what string, body []byte, out any) error {
	ctx, stop := context.WithTimeout(ctx, tellLimit)
	defer stop()
	cfg, err := d.c.restOf("https://"+at, serverUser)
	if err != nil {
		return err
	}
	raw, err := d.c.raw(cfg)
	if err != nil {
		return err
	}
	data, err := raw.Verb(method).RequestURI(strings.TrimSuffix(CertsPath+"/"+what, "/")).Body(body).Do(ctx).Raw()
	if err == nil && out != nil {
		err = json.Unmarshal(data, out)
	}
	return err
}

// renewAll has all servers issue anew what they issue.
func (d *keyDesk) renewAll(ctx context.Context, r *http.Request) error {
	err := d.renew(ctx)
	if r.URL.Query().Has("only") {
		return err
	}
	for _, at := range d.servers() {
		err = errors.Join(err, d.askServer(ctx, http.MethodPost, at, "renew?only", nil, nil))
	}
	return err
}

// rotateAll has new authorities sign, on all servers. Asked again it goes on with what failed.
func (d *keyDesk) rotateAll(ctx context.Context, _ *http.Request) error {
	if !d.c.keys.Exchanging() {
		if err := d.c.keys.Rotate(); err != nil {
			return err
		}
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	files, err := d.c.keys.Files()
	if err != nil {
		return err
	}
	return d.handOut(ctx, files)
}

// finishAll has the authority of before believed no more, on all servers: this one is the last, so that it can be asked again.
func (d *keyDesk) finishAll(ctx context.Context, r *http.Request) error {
	q := r.URL.Query()
	if err := finishable(d.allCerts(ctx), d.c.keys.CA.Cert().Raw, time.Now(), q.Has("force")); err != nil {
		return err
	}
	files, err := d.c.keys.Finished(q.Has("tokens"))
	if err != nil {
		return err
	}
	if err := d.handOut(ctx, files); err != nil {
		return err
	}
	if err := d.c.keys.Adopt(files); err != nil {
		return err
	}
	return d.settle(ctx)
}

// finishable says what stands against believing in authority alone. Force takes it upon itself that somebody is locked out; servers that do
// not sign with it are no matter of force.
func finishable(list []*Certs, authority []byte, now time.Time, force bool) error {
	for _, c := range list {
		switch {
		case c.Error != "":
			return fmt.Errorf("the server %s can't be asked: %s", c.Server, c.Error)
		case !bytes.Equal(c.Authority, authority):
			return fmt.Errorf("the server %s still signs with the authority of before: rotate again", c.Server)
		}
		if users := c.Outdated(now); len(users) > 0 && !force {
			return fmt.Errorf("in the last %s these came to the server %s with certificates of the authority of before: %s",
				lately, c.Server, strings.Join(users, ", "))
		}
		if watched := time.Duration(c.Watched) * time.Second; c.Exchanging && watched < lately && !force {
			return fmt.Errorf("the server %s started or heard of the exchange %s ago, and can't know yet who has old certificates: "+
				"ask again in %s, or take --force", c.Server, watched, lately-watched)
		}
	}
	return nil
}

// handOut gives keys to all other servers.
func (d *keyDesk) handOut(ctx context.Context, files keyFiles) (err error) {
	body, err := json.Marshal(files)
	if err != nil {
		return err
	}
	for _, at := range d.servers() {
		if e := d.askServer(ctx, http.MethodPost, at, "adopt", body, nil); e != nil {
			err = errors.Join(err, fmt.Errorf("the server %s has the keys of before: %w", at, e))
		}
	}
	return err
}

// adopt takes the keys that another server has.
func (d *keyDesk) adopt(ctx context.Context, r *http.Request) error {
	var files keyFiles
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20)).Decode(&files); err != nil {
		return err
	}
	if err := d.c.keys.Adopt(files); err != nil {
		return err
	}
	return d.settle(ctx)
}

// settle has all that depends on the keys follow them: the tokens' signer, what the API tells of whom to trust, and files.
func (d *keyDesk) settle(ctx context.Context) error {
	objects := d.trustObjects()
	errs := []error{d.useTokenKeys(), d.server.Bootstrap(ctx, objects), d.c.writeKubeconfig(),
		renewInfo(ctx, d.local(serverUser, "kloop"), d.c.keys.CA.PEM())}
	if d.c.storage.peerURL != "" {
		errs = append(errs, d.c.storage.writePeerCert(d.c.storage.peerURL))
	}
	return errors.Join(errs...)
}

// renew issues anew what this server issues.
func (d *keyDesk) renew(ctx context.Context) error {
	d.c.keys.Renew()
	return d.settle(ctx)
}

// keepIssued issues anew what was issued at the start, long before it ends.
func (d *keyDesk) keepIssued(ctx context.Context, ready func()) error {
	ready()
	eachLife(ctx, func() {
		if err := d.renew(ctx); err != nil {
			d.log.Error("issue certificates anew", "err", err)
		}
	})
	return nil
}

// eachLife calls renew whenever issuedLife is over, also if the machine slept meanwhile, or the clock was set back.
func eachLife(ctx context.Context, renew func()) {
	last := wall()
	every(ctx, time.Hour, func() {
		if age := wall().Sub(last); age < issuedLife && age >= 0 {
			return
		}
		last = wall()
		renew()
	})
}

// wall is the time without the running clock, which stands still while a machine sleeps.
func wall() time.Time { return time.Now().Round(0) }
