package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/kinds"
	"github.com/kloop-dev/kloop/kinds/convergence"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/survey"
)

// foreign says that the server does not explain itself, of one that answered so: it has no such API, or only for others, or who serves it
// does not answer. It refuses those with few rights before it says that there is no such API; discovery tells everybody, or nearly.
func (a *Asker) foreign(ctx context.Context, err error, out *Answer) bool {
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsServiceUnavailable(err) {
		return false
	}
	at := a.Get(ctx, Explained, &metav1.APIResourceList{})
	who := "who explains this cluster does not answer: "
	if apierrors.IsForbidden(at) {
		groups, told := survey.Served(ctx, a.Raw)
		is := func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == convergence.GroupVersion.Group }
		if told == nil && !slices.ContainsFunc(groups, is) {
			return true
		} else if told != nil {
			who = "whether somebody explains this cluster can't be told: "
		}
	}
	switch {
	case apierrors.IsNotFound(at):
		return true
	case apierrors.IsNotFound(err):
		return false
	}
	out.refused = err
	out.Notes = append(out.Notes, who+err.Error()+". This is what its objects tell")
	return true
}

// orRefused returns the outcome of a survey; to a caller who may not make one either, what was refused first.
func (a *Answer) orRefused(err error) error {
	if a.refused != nil && (apierrors.IsForbidden(err) || apierrors.IsServiceUnavailable(err)) {
		return a.refused
	}
	return err
}

// Unexplained says what a failed question means when the server has no API that explains.
func (a *Asker) Unexplained(ctx context.Context, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	switch ours, err := a.ours(ctx); {
	case ours:
		return errOff
	case err != nil:
		return fmt.Errorf("the server does not explain itself; whether it is a kloop can't be told: %w", err)
	}
	return errors.New("the server does not explain itself: it is no kloop")
}

// errOff is the answer of a kloop that was told not to explain.
var errOff = errors.New("the server explains nothing: it was started with --convergence=false " +
	"(convergence.enabled: false in its configuration file); start it without, and kloop why answers")

// ours says that the server is a kloop, by its own word. The error is of one that does not tell: what stands before it may keep its
// version to itself.
func (a *Asker) ours(ctx context.Context) (bool, error) {
	var v version.Info
	err := a.Get(ctx, "/version", &v)
	if err == nil && v.GitVersion == "" {
		err = errors.New("it tells no version")
	}
	return isOurs(v.GitVersion), err
}

func isOurs(version string) bool { return strings.Contains(version, "+kloop.") }

// silence says why a kloop that was read does not explain itself: by its own word, or as its nodes and services tell. Of others there is
// nothing to say.
func (a *Asker) silence(ctx context.Context, w *converge.World) []string {
	ours, err := a.ours(ctx)
	for _, n := range resource.List(w.Read, kinds.Nodes, "") {
		ours = ours || isOurs(n.Status.NodeInfo.KubeletVersion)
	}
	if s := resource.Get(w.Read, kinds.Services, metav1.NamespaceSystem, "kube-dns"); s != nil {
		ours = ours || s.Labels["app.kubernetes.io/managed-by"] == "kloop"
	}
	switch {
	case ours:
		return []string{errOff.Error() + ". Until then this is what its objects tell"}
	case err != nil:
		return []string{"whether this is a kloop that was told to explain nothing can't be told: " + err.Error()}
	}
	return nil
}
