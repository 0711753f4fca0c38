package why_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/internal/eventually"
	"github.com/kloop-dev/kloop/kit/whole"
)

var (
	stock     = flag.String("stock", "", "kubeconfig of a Kubernetes without nodes, whose API server, controllers and scheduler run")
	stockOnly = flag.String("only", "", "make these situations alone there, with commas between them")
)

// notMade stands for a situation that needs kloop's own storage.
const notMade = "not made"

// onStock are the situations of which a stock Kubernetes (1.36.3) tells another cause than kloop, and which. The others must come to the
// same. What is missing there is what only the server's own loops know: who writes, what an operator was refused, what a scheduler counted.
var onStock = map[string]string{
	"attach-fails":        "(none)",
	"attacher-missing":    "(none)",
	"autoscaler-max":      "MetricsMissing",
	"cron-deadline":       "(none)",
	"csr-signer":          "NotSigned",
	"drain":               "BudgetNeverAllows",
	"drain-unwell":        "BudgetNeverAllows",
	"finalizer-of-spec":   "NotFound",
	"ingress-controller":  "IngressBackendMissing",
	"liveness":            "CrashLoop",
	"load-balancer-any":   "LoadBalancerMissing",
	"local-volume-away":   notMade,
	"local-volume-shared": "VolumeUnfit",
	"operator-count":      "(none)",
	"operator-forbidden":  "(none)",
	"operator-gone":       "OperatorBehind",
	"operator-immutable":  "OperatorReports",
	"operator-never":      "(none)",
	"operator-policy":     "OperatorReports",
	"operator-quota":      "OperatorReports",
	"policy-param":        "(none)",
	"provisioner":         "Provisioning",
	"reclaim-failed":      "(none)",
	"secret-key-mount":    "NotStarted",
}

// TestStock makes the situations on somebody else's Kubernetes, with kloop's simulated nodes in it, and explains them from outside. It
// runs only when asked to: -args -stock KUBECONFIG.
func TestStock(t *testing.T) {
	if *stock == "" {
		t.Skip("-stock KUBECONFIG names the cluster")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", *stock)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	ctx, stop := context.WithCancel(t.Context())
	var agents sync.WaitGroup
	defer agents.Wait()
	defer stop()
	agents.Go(func() { // the loops of simulated nodes, and one that has nothing to do
		_ = cluster.RunLoops(ctx, cluster.Loops{Rest: cfg, Config: cluster.Config{Kit: whole.Kit(), Controllers: []string{"csr-cleaner"}},
			Log: slog.New(slog.DiscardHandler), Election: client.Election{Namespace: "kube-system", Name: "kloop-sim", Identity: "sim",
				Duration: 15 * time.Second, Renew: 3 * time.Second}})
	})
	w := &world{t, dynamic.NewForConfigOrDie(cfg),
		restmapper.NewDeferredDiscoveryRESTMapper(cached{discovery.NewDiscoveryClientForConfigOrDie(cfg)}), t.Context(), cfg, *stock}
	nodes := ""
	for i := range 8 {
		nodes += fmt.Sprintf("---\napiVersion: v1\nkind: Node\nmetadata: {name: sim-%[1]d, labels: {kubernetes.io/hostname: sim-%[1]d}, "+
			"annotations: {kwok.x-k8s.io/node: fake}}\n", i)
	}
	w.make(situation{Name: "the-nodes", Given: nodes})
	list := slices.DeleteFunc(read(t, "situations.yaml"), func(s situation) bool {
		return s.World != "" && s.World != "storage" || onStock[s.Name] == notMade ||
			*stockOnly != "" && !slices.Contains(strings.Split(*stockOnly, ","), s.Name)
	})
	turns := make(chan bool, 6)
	var made sync.WaitGroup
	for _, s := range list {
		turns <- true
		made.Go(func() {
			defer func() { <-turns }()
			t.Run("make/"+s.Name, func(t *testing.T) { w.with(t).make(s) })
		})
	}
	made.Wait()
	w.toldOnStock(list)
}

// toldOnStock looks until all is as expected, or nothing changes any more.
func (w *world) toldOnStock(list []situation) {
	var last []string
	same := 0
	eventually.Sees(w.t, *patience, "two looks come to the same", func() (bool, int) {
		from := surveyOf(w.t, w.cfg)
		var now []string
		same = 0
		for _, s := range list {
			cause, verdict := explained(w, from.World, s)
			if cause == s.Cause {
				same++
			}
			if cause != cmp.Or(onStock[s.Name], s.Cause) {
				now = append(now, fmt.Sprintf("%s: %s and not %s: %s", s.Name, cause, cmp.Or(onStock[s.Name], s.Cause), verdict))
			}
		}
		calm := len(now) == 0 || len(now) == len(last)
		if last = now; !calm {
			time.Sleep(10 * time.Second) // controllers that are not ours take their time
		}
		return calm, len(now)
	})
	for _, text := range last {
		w.t.Error(text)
	}
	w.t.Logf("of %d situations %d tell kloop's cause on this Kubernetes", len(list), same)
}
