package cluster_test

import (
	"context"
	"errors"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kloop-dev/kloop/cluster"
	"github.com/kloop-dev/kloop/kinds/core"
)

// TestTokenInSecret asks for a token by a Secret, as old tools do, uses it, and sees it go with its account.
func TestTokenInSecret(t *testing.T) {
	c := start(t, cluster.Config{})
	cfg := config(t, c)
	cs := clientset(t, cfg)
	ns := namespace(t, cs)
	secrets := cs.CoreV1().Secrets(ns)
	must[*corev1.ServiceAccount](t)(cs.CoreV1().ServiceAccounts(ns).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))
	must[*corev1.Secret](t)(secrets.Create(t.Context(), &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken,
		ObjectMeta: metav1.ObjectMeta{Name: "key", Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}}},
		metav1.CreateOptions{}))
	var token string
	eventually(t, "a token", func(ctx context.Context) (bool, error) {
		s, err := secrets.Get(ctx, "key", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		token = string(s.Data[corev1.ServiceAccountTokenKey])
		return token != "" && len(s.Data[corev1.ServiceAccountRootCAKey]) > 0 && string(s.Data["namespace"]) == ns, nil
	})
	robot := rest.AnonymousClientConfig(cfg)
	robot.BearerToken = token
	_, err := clientset(t, robot).CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("with the token: %v, want forbidden: known, but without rights", err)
	}
	eventually(t, "the use is noted", func(ctx context.Context) (bool, error) {
		s, err := secrets.Get(ctx, "key", metav1.GetOptions{})
		return err == nil && s.Labels[core.LegacyTokenLastUsed] != "", err
	})
	must[*corev1.Secret](t)(secrets.Patch(t.Context(), "key", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+core.LegacyTokenInvalidSince+`":"2026-01-01"}}}`), metav1.PatchOptions{}))
	if _, err := clientset(t, robot).CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a token that has been declared invalid: %v", err)
	}
	if err := cs.CoreV1().ServiceAccounts(ns).Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Secret goes", func(ctx context.Context) (bool, error) {
		_, err := secrets.Get(ctx, "key", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// TestTokenRequestNames: what a request says of its account must be so, and the answer tells it.
func TestTokenRequestNames(t *testing.T) {
	cs := clientset(t, config(t, start(t, cluster.Config{})))
	ns := namespace(t, cs)
	accounts := cs.CoreV1().ServiceAccounts(ns)
	sa := must[*corev1.ServiceAccount](t)(accounts.Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}))
	ask := func(meta metav1.ObjectMeta) (*authenticationv1.TokenRequest, error) {
		return accounts.CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{ObjectMeta: meta}, metav1.CreateOptions{})
	}
	for _, meta := range []metav1.ObjectMeta{{}, {Name: "robot", UID: sa.UID}} {
		tr, err := ask(meta)
		if err != nil || tr.Name != "robot" || tr.Namespace != ns || tr.UID != sa.UID || tr.CreationTimestamp.IsZero() || tr.Status.Token == "" {
			t.Errorf("%v %+v", err, tr)
		}
	}
	_, err := ask(metav1.ObjectMeta{Name: "other"})
	if s := apierrors.APIStatus(nil); !apierrors.IsInvalid(err) || !errors.As(err, &s) ||
		s.Status().Details.Causes[0].Field != "metadata.name" {
		t.Error(err)
	}
	if _, err := ask(metav1.ObjectMeta{UID: "other"}); !apierrors.IsConflict(err) {
		t.Error(err)
	}
}

// TestTokenRequestOwner: what asks for a token says who set its fields, though it is not stored.
func TestTokenRequestOwner(t *testing.T) {
	c := start(t, cluster.Config{NoLoops: true})
	cs := clientset(t, config(t, c))
	accounts := cs.CoreV1().ServiceAccounts("kube-system")
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	must[*corev1.ServiceAccount](t)(accounts.Create(t.Context(), sa, metav1.CreateOptions{}))
	asked := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}}}
	got := must[*authenticationv1.TokenRequest](t)(
		accounts.CreateToken(t.Context(), "robot", asked, metav1.CreateOptions{FieldManager: "me"}))
	f := got.ManagedFields
	if len(f) != 1 || f[0].Manager != "me" || f[0].Subresource != "token" ||
		f[0].APIVersion != "authentication.k8s.io/v1" {
		t.Fatalf("%+v", f)
	}
	if want := `{"f:spec":{"f:audiences":{},"f:expirationSeconds":{}}}`; string(f[0].FieldsV1.Raw) != want {
		t.Errorf("%s", f[0].FieldsV1.Raw)
	}
}
