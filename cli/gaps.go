package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/convergence"
)

// asker reads what a server explains. It finds the server as kubectl does, since it also runs as its plugin.
type asker struct {
	rest *rest.Config
	raw  rest.Interface
	ns   string // asked for, or of the kubeconfig's context; "" is all
	now  func() time.Time
}

// askFlags are the flags of the commands that only ask.
type askFlags struct {
	kubeconfig, context, ns string
	all                     bool
}

func (f *askFlags) bind(fs *flag.FlagSet) {
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the server (default: as kubectl)")
	fs.StringVar(&f.context, "context", "", "context of the kubeconfig")
	for _, name := range []string{"namespace", "n"} {
		fs.StringVar(&f.ns, name, "", "namespace (default: that of the context)")
	}
	for _, name := range []string{"all-namespaces", "A"} {
		fs.BoolVar(&f.all, name, false, "in all namespaces")
	}
}

func (f *askFlags) connect() (*asker, error) {
	rules, _ := which(f.kubeconfig)
	over := &clientcmd.ConfigOverrides{CurrentContext: f.context}
	over.Context.Namespace = f.ns
	cc := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, over)
	cfg, err := cc.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errNowhere
	}
	if err != nil {
		return nil, fmt.Errorf("find the server: %w; say how to reach it with --kubeconfig FILE or KUBECONFIG", err)
	}
	ns, _, err := cc.Namespace()
	if err != nil {
		return nil, err
	}
	if f.all {
		ns = ""
	}
	return newAsker(cfg, ns)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func newAsker(cfg *rest.Config, ns string) (*asker, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "kloop-why"
	raw, err := client.Raw(cfg)
	if err != nil {
		return nil, err
	}
	return &asker{rest: cfg, raw: raw, ns: ns, now: time.Now}, nil
}

// get decodes what is at a path.
func (a *asker) get(ctx context.Context, path string, into any) error {
	data, err := a.raw.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return refusal(data, err)
	}
	return json.Unmarshal(data, into)
}

// refusal is the server's own word on why it refused: who may not do what. A client without a codec makes "unknown" of it.
func refusal(answer []byte, err error) error {
	var st metav1.Status
	if json.Unmarshal(answer, &st) == nil && st.Status == metav1.StatusFailure && st.Message != "" {
		return &apierrors.StatusError{ErrStatus: st}
	}
	return err
}

const explained = "/apis/convergence.kloop.dev/v1alpha1"

// within is the path of a resource in a namespace; "" means in all.
func within(ns, resource string) string {
	if ns == "" {
		return explained + "/" + resource
	}
	return explained + "/namespaces/" + ns + "/" + resource
}

// unexplained says what a failed question means when the server has no API that explains.
func (a *asker) unexplained(ctx context.Context, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	var v version.Info
	if a.get(ctx, "/version", &v) == nil && strings.Contains(v.GitVersion, "kloop") {
		return errors.New("the server explains nothing: it was started with --convergence=false (convergence.enabled: false in its configuration file); " +
			"start it without, and kloop why answers")
	}
	return errors.New("the server does not explain itself: it is no kloop")
}

// gaps prints a sentence for everything that is not what it should be.
func gaps(ctx context.Context, std stdio, args []string) error {
	var f askFlags
	fs := flags(std, "gaps", "")
	f.bind(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	a, err := f.connect()
	if err != nil {
		return err
	}
	return a.tellAll(ctx, std)
}

func (a *asker) tellAll(ctx context.Context, std stdio) error {
	var list struct {
		Items []convergence.Gap `json:"items"`
	}
	if err := a.get(ctx, within(a.ns, "gaps"), &list); err != nil {
		return a.unexplained(ctx, err)
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(std.err, "everything is what it should be")
	}
	for i := range list.Items {
		g := &list.Items[i]
		fmt.Fprintf(std.out, "%s%s\n    %s, %s, for %s\n", at(g.Object.Namespace), g.Verdict, g.Owner, inWords(g.State), a.since(g.Since))
	}
	return nil
}

// at is the beginning of a sentence about what is in a namespace.
func at(ns string) string {
	if ns == "" {
		return ""
	}
	return ns + ": "
}

func (a *asker) since(t metav1.Time) string { return duration.HumanDuration(a.now().Sub(t.Time)) }

// loops prints how the control loops are doing.
func loops(ctx context.Context, std stdio, args []string) error {
	var f askFlags
	fs := flags(std, "loops", "")
	f.bind(fs)
	if err := parse(fs, args); err != nil {
		return err
	}
	a, err := f.connect()
	if err != nil {
		return err
	}
	var list struct {
		Items []convergence.Loop `json:"items"`
	}
	if err := a.get(ctx, within("", "loops"), &list); err != nil {
		return a.unexplained(ctx, err)
	}
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LOOP\tDUE\tOLDEST\tRUNNING\tFAILING\tRATE\tP99\tDONE\tFAILED\tLAST ERROR")
	for i := range list.Items {
		l, last := &list.Items[i], ""
		if l.LastError != nil {
			last = l.LastError.Message
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\t%s\t%d\t%d\t%.80s\n", l.Name, l.Depth, l.Oldest, l.Running, l.Failing, l.Rate, l.P99, l.Done, l.Failed, last)
	}
	return w.Flush()
}
