package ask

import (
	"errors"
	"os"

	"k8s.io/client-go/tools/clientcmd"
)

// Written is the administrator's kubeconfig of the cluster that kloop up runs in its default directory.
const Written = "/var/lib/kloop/admin.kubeconfig"

// Which is the one rule for which cluster a command speaks to, and says why. The first of these that is there counts: --kubeconfig,
// $KUBECONFIG, ~/.kube/config with a current context, and the kubeconfig that kloop up wrote to its default directory.
func Which(kubeconfig string) (rules *clientcmd.ClientConfigLoadingRules, because string) {
	rules = clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	switch {
	case kubeconfig != "":
		return rules, "--kubeconfig " + kubeconfig
	case os.Getenv("KUBECONFIG") != "":
		return rules, "KUBECONFIG=" + os.Getenv("KUBECONFIG")
	}
	cfg, err := rules.Load()
	switch {
	case err == nil && cfg.CurrentContext != "":
		return rules, "the current context of " + clientcmd.RecommendedHomeFile
	case exists(Written):
		rules.ExplicitPath = Written
		return rules, Written + ", since no kubeconfig names another"
	}
	return rules, clientcmd.RecommendedHomeFile
}

// ErrNowhere says that no cluster is known.
var ErrNowhere = errors.New("no cluster is known: name one with --kubeconfig FILE or KUBECONFIG, or make one (kloop create, kloop up)")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
