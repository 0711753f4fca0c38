// Package provider asks credential provider plugins for registries' credentials: programs that an operator puts beside the agent, as
// those of cloud registries (KEP-2133). With tokenAttributes they answer for the pod's service account (KEP-4412).
package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kloop-dev/kloop/internal/family"
)

// The bounds of a plugin: the kubelet's minute, and bytes of an answer; and how many answers are kept.
const (
	patience  = time.Minute
	maxAnswer = 1 << 20
	maxKept   = 1000
)

// Login opens a registry, or a part of one.
type Login struct{ User, Password string }

// A Grant holds a plugin's answer: logins by the registries that they are for.
type Grant struct {
	Logins map[string]Login
	// Account is the one that the answer is for; nil: any pod may use it.
	Account *corev1.ServiceAccount
}

// A Caller is the pod that needs an image, as far as plugins ask for that.
type Caller struct {
	Account func() (*corev1.ServiceAccount, error)          // nil: the pod has none
	Token   func(audience string) (token string, err error) // bound to the pod
}

// Plugins are all that are configured. They are safe for concurrent use; nil ones know nothing.
type Plugins struct {
	// Now tells the time, and Patience bounds one answer. Set them before use.
	Now      func() time.Time
	Patience time.Duration

	list []plugin

	mu    sync.Mutex
	cache map[string]answer
	asked map[string]*question
}

// An answer is kept until a time, under a key that depends on what the plugin said that it is for.
type answer struct {
	logins map[string]Login
	until  time.Time
}

// A question is one that is being asked; others with the same wait for it.
type question struct {
	done   chan struct{}
	logins map[string]Login
	err    error
}

// Ask returns what the plugins know of an image, by its whole name without a tag. One that fails knows nothing; its error says why.
func (p *Plugins) Ask(ctx context.Context, image string, c Caller) (grants []Grant, err error) {
	if p == nil {
		return nil, nil
	}
	var errs []error
	for i := range p.list {
		g := &p.list[i]
		if !slices.ContainsFunc(g.MatchImages, func(m string) bool { return Matches(m, image) }) {
			continue
		}
		grant, err := p.one(ctx, g, image, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("credential provider %s: %w", g.Name, err))
		} else if len(grant.Logins) > 0 {
			grants = append(grants, grant)
		}
	}
	return grants, errors.Join(errs...)
}

// A request goes to a plugin's input.
type request struct {
	metav1.TypeMeta `json:",inline"`
	Image           string            `json:"image"`
	Token           string            `json:"serviceAccountToken,omitempty"`
	Annotations     map[string]string `json:"serviceAccountAnnotations,omitempty"`
}

// A response comes from its output.
type response struct {
	metav1.TypeMeta `json:",inline"`
	KeyType         string           `json:"cacheKeyType"`
	Duration        *metav1.Duration `json:"cacheDuration"`
	Auth            map[string]struct {
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"auth"`
}

// errNotFor says that a plugin has nothing for a pod like this.
var errNotFor = errors.New("it is not for this pod")

// one asks one plugin, unless what it said is still good.
func (p *Plugins) one(ctx context.Context, g *plugin, image string, c Caller) (Grant, error) {
	req := request{TypeMeta: metav1.TypeMeta{APIVersion: g.APIVersion, Kind: "CredentialProviderRequest"}, Image: image}
	account, err := g.identify(&req, c)
	if errors.Is(err, errNotFor) {
		return Grant{}, nil
	}
	if err != nil {
		return Grant{}, err
	}
	of := g.Name
	if account != nil {
		of = fmt.Sprintf("%s\x00%s\x00%q", g.Name, account.UID, req.Annotations)
		if g.TokenAttributes.Cache == "Token" {
			of += "\x00" + req.Token
		}
	}
	logins, err := p.shared(ctx, g, of, req)
	return Grant{Logins: logins, Account: account}, err
}

// identify fills in who asks, where a plugin wants to know.
func (g *plugin) identify(req *request, c Caller) (*corev1.ServiceAccount, error) {
	t := g.TokenAttributes
	if t == nil {
		return nil, nil
	}
	if c.Account == nil {
		if *t.Require {
			return nil, errNotFor
		}
		return nil, nil
	}
	account, err := c.Account()
	if err != nil {
		return nil, fmt.Errorf("get the pod's service account: %w", err)
	}
	for _, k := range t.Required {
		if _, ok := account.Annotations[k]; !ok {
			return nil, errNotFor
		}
	}
	for _, k := range append(slices.Clone(t.Required), t.Optional...) {
		if v, ok := account.Annotations[k]; ok {
			if req.Annotations == nil {
				req.Annotations = map[string]string{}
			}
			req.Annotations[k] = v
		}
	}
	req.Token, err = c.Token(t.Audience)
	return account, err
}

// shared looks into the cache, or asks; who asks the same meanwhile gets the same answer.
func (p *Plugins) shared(ctx context.Context, g *plugin, of string, req request) (map[string]Login, error) {
	key := of + "\x00" + req.Image
	p.mu.Lock()
	for _, k := range []string{"Image " + key, "Registry " + of + "\x00" + hostOf(req.Image), "Global " + of} {
		if a, ok := p.cache[k]; ok && p.Now().Before(a.until) {
			p.mu.Unlock()
			return a.logins, nil
		}
	}
	q := p.asked[key]
	if q != nil {
		p.mu.Unlock()
		select {
		case <-q.done:
			return q.logins, q.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	q = &question{done: make(chan struct{})}
	p.asked[key] = q
	p.mu.Unlock()
	var res *response
	if res, q.err = g.run(ctx, p.Patience, req); q.err == nil {
		q.logins = map[string]Login{}
		for registry, a := range res.Auth {
			q.logins[registry] = Login{a.Username, a.Password}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, key)
	if q.err == nil {
		p.keep(g, of, req.Image, res, q.logins)
	}
	close(q.done)
	return q.logins, q.err
}

// keep puts an answer into the cache. p is locked.
func (p *Plugins) keep(g *plugin, of, image string, res *response, logins map[string]Login) {
	good, now := g.DefaultCacheDuration.Duration, p.Now()
	if res.Duration != nil {
		good = res.Duration.Duration
	}
	if good <= 0 {
		return
	}
	maps.DeleteFunc(p.cache, func(_ string, a answer) bool { return !now.Before(a.until) })
	if len(p.cache) >= maxKept {
		clear(p.cache) // tokens that change make ever new ones
	}
	key := res.KeyType + " " + of
	switch res.KeyType {
	case "Image":
		key += "\x00" + image
	case "Registry":
		key += "\x00" + hostOf(image)
	}
	p.cache[key] = answer{logins, now.Add(good)}
}

// run has the program answer.
func (g *plugin) run(ctx context.Context, patience time.Duration, req request) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	in, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	out, complaint := &bounded{room: maxAnswer}, &bounded{room: 1000}
	cmd := family.Command(exec.CommandContext(ctx, g.program, g.Args...))
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = bytes.NewReader(in), out, complaint, os.Environ()
	for _, e := range g.Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("it did not answer within %s", patience)
		}
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.buf.String()))
	}
	if out.over {
		return nil, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	}
	res := &response{}
	if err := json.Unmarshal(out.buf.Bytes(), res); err != nil {
		return nil, errors.New("its answer is no JSON of a CredentialProviderResponse") // not the text: it may hold a password
	}
	switch {
	case res.Kind != "CredentialProviderResponse":
		return nil, fmt.Errorf("it answers with kind %q", res.Kind)
	case res.APIVersion != g.APIVersion:
		return nil, fmt.Errorf("it answers with apiVersion %q, not %q", res.APIVersion, g.APIVersion)
	case !slices.Contains([]string{"Image", "Registry", "Global"}, res.KeyType):
		return nil, fmt.Errorf("it answers with cacheKeyType %q: want Image, Registry or Global", res.KeyType)
	}
	return res, nil
}

// bounded is a buffer that drops what is too much. It has no other method: io.Copy would read by a ReadFrom, past the bound.
type bounded struct {
	buf  bytes.Buffer
	room int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if left := b.room - b.buf.Len(); len(p) > left {
		b.over = true
		b.buf.Write(p[:left])
		return len(p), nil
	}
	return b.buf.Write(p)
}

// hostOf is the registry of an image or a pattern, with its port.
func hostOf(image string) string {
	host, _, _ := strings.Cut(image, "/")
	return host
}

// Matches says that an image is of the registries that a pattern names: of as many parts, each with its wildcards, of the same port, and
// below the same path.
func Matches(pattern, image string) bool {
	host, where, _ := strings.Cut(pattern, "/")
	have, below, _ := strings.Cut(image, "/")
	host, port, _ := strings.Cut(host, ":")
	have, at, _ := strings.Cut(have, ":")
	want, parts := strings.Split(host, "."), strings.Split(have, ".")
	if port != at || len(want) != len(parts) || !strings.HasPrefix(below, where) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
