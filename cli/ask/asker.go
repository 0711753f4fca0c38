// Package ask asks a server what has not converged and why, and words the answer for a terminal or a program. It reads only. A server
// that does not explain itself, any Kubernetes, is read by package survey and explained here.
package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/client"
)

// An Asker reads what a server explains. It finds the server as kubectl does, since it also runs as its plugin.
type Asker struct {
	Rest *rest.Config
	Raw  rest.Interface // asks for paths
	NS   string         // asked for, or of the kubeconfig's context; "" is all
	Home string         // of the kubeconfig's context: an object without a namespace is looked for there
	Now  func() time.Time

	Context string // names the answer among several; "": there is one

	heard *warnings
}

// Flags are those of the commands that only ask.
type Flags struct {
	kubeconfig, context, ns string
	all                     bool
	as, group               string
}

// Bind adds the flags to a set.
func (f *Flags) Bind(fs *flag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the server (default: as kubectl)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig; why and gaps take several: a,b")
	for _, name := range []string{"namespace", "n"} {
		fs.StringVar(&f.ns, name, "", "namespace (default: that of the context)")
	}
	fs.StringVar(&f.as, "as", "", "ask as this user: what they may see")
	fs.StringVar(&f.group, "as-group", "", "and as a member of this group")
	for _, name := range []string{"all-namespaces", "A"} {
		fs.BoolVar(&f.all, name, false, "in all namespaces")
	}
}

// Connect finds the server that the flags name, as kubectl does.
func (f *Flags) Connect() (*Asker, error) {
	rules, _ := Which(f.kubeconfig)
	over := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	over.Context.Namespace = f.ns
	if over.AuthInfo.Impersonate = f.as; f.group != "" {
		over.AuthInfo.ImpersonateGroups = []string{f.group}
	}
	cc := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, over)
	cfg, err := cc.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, ErrNowhere
	}
	if err != nil {
		return nil, fmt.Errorf("find the server: %w; say how to reach it with --kubeconfig FILE or KUBECONFIG", err)
	}
	ns, _, err := cc.Namespace()
	if err != nil {
		return nil, err
	}
	home := ns
	if f.all {
		ns = ""
	}
	a, err := New(cfg, ns)
	if err == nil {
		a.Home = home
	}
	return a, err
}

// New returns who asks the server of cfg; ns is the namespace that is meant, "" all.
func New(cfg *rest.Config, ns string) (*Asker, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "kloop-why"
	cfg.QPS, cfg.Burst = 200, 400 // a survey lists page after page, and no more than a few at once
	heard, own := &warnings{}, rest.CopyConfig(cfg)
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { heard.next = next; return heard })
	raw, err := client.Raw(own)
	if err != nil {
		return nil, err
	}
	return &Asker{Rest: cfg, Raw: raw, NS: ns, Now: time.Now, heard: heard}, nil
}

// Warnings collects the words of a server beside its answers. A server that explains itself warns of what it does not tell.
type warnings struct {
	next http.RoundTripper
	mu   sync.Mutex
	list []string
}

// RoundTrip implements http.RoundTripper: answers that are taken as they are have no other place for warnings.
func (w *warnings) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := w.next.RoundTrip(r)
	if err != nil {
		return answer, err
	}
	told, _ := net.ParseWarningHeaders(answer.Header.Values("Warning"))
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range told {
		if !slices.Contains(w.list, t.Text) {
			w.list = append(w.list, t.Text)
		}
	}
	return answer, nil
}

// take are the warnings since the last time.
func (w *warnings) take() (list []string) {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list, w.list = w.list, nil
	return list
}

// Get decodes what is at a path.
func (a *Asker) Get(ctx context.Context, path string, into any) error {
	data, err := a.Raw.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return Refusal(data, err)
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("<")) {
		return fmt.Errorf("what answers at %s is no API server but a page for people: log in to what stands before the server", path)
	}
	return json.Unmarshal(data, into)
}

// Refusal is the server's own word on why it refused: who may not do what. A client without a codec makes "unknown" of it.
func Refusal(answer []byte, err error) error { return client.Refusal(answer, err) }

// Explained is the path of the API that explains.
const Explained = "/apis/convergence.kloop.dev/v1alpha1"

// Within is the path of a resource in a namespace; "" means in all.
func Within(ns, resource string) string {
	if ns == "" {
		return Explained + "/" + resource
	}
	return Explained + "/namespaces/" + ns + "/" + resource
}

// Namespace is the one that was asked for; "" when none was.
func (f *Flags) Namespace() string { return f.ns }
