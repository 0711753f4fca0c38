package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/client"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/kinds/rbac"
	"github.com/kloop-dev/kloop/resource"
)

// joinersGroup is the group of machines that join with a bootstrap token, as kubeadm has it.
const joinersGroup = "system:bootstrappers:kubeadm:default-node-token"

// nodeBindings let nodes join and renew their certificates. The first three are kubeadm's.
func nodeBindings() []resource.Object {
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	group := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
	}
	return []resource.Object{
		bind("kubeadm:kubelet-bootstrap", "system:node-bootstrapper", group(joinersGroup)),
		bind("kubeadm:node-autoapprove-bootstrap", requests+"nodeclient", group(joinersGroup)),
		bind("kubeadm:node-autoapprove-certificate-rotation", requests+"selfnodeclient", group(auth.GroupNodes)),
		bind("system:kloop:kubelet-serving-approver", "system:certificates.k8s.io:kubelet-serving-approver",
			rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "kubelet-serving-approver"}),
		// Agents that are kubelets ask whether the server may do what it asks of them.
		bind("system:kloop:kubelet-api-admin", "system:kubelet-api-admin",
			rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: agentUser}),
		// The authorities that agents are to trust: they may change while an agent runs.
		&rbacv1.Role{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
			ObjectMeta: authorityMeta(),
			Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
				ResourceNames: []string{AuthorityName}}}},
		&rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
			ObjectMeta: authorityMeta(), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: AuthorityName},
			Subjects: []rbacv1.Subject{group(auth.GroupNodes)}},
	}
}

// AuthorityName is the ConfigMap of kube-system in which nodes find the authorities of the cluster, under AuthorityKey.
const (
	AuthorityName = "kloop-authority"
	AuthorityKey  = "ca.crt"
)

func authorityMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: AuthorityName}
}

// authority tells nodes whom to trust.
func (d *frontDoor) authority() resource.Object {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: authorityMeta(),
		Data: map[string]string{AuthorityKey: string(d.c.keys.CA.PEM())}}
}

// renewInfo has cluster-info, if it is there, tell the present authorities, with the address that it tells.
func renewInfo(ctx context.Context, c client.Client, ca []byte) error {
	obj, err := c.Get(ctx, core.ConfigMaps, metav1.NamespacePublic, "cluster-info")
	if apierrors.IsNotFound(err) {
		return nil
	}
	m, ok := obj.(*corev1.ConfigMap)
	if err != nil || !ok {
		return err
	}
	cfg, err := clientcmd.Load([]byte(m.Data["kubeconfig"]))
	if err != nil {
		return nil // somebody else's
	}
	for _, one := range cfg.Clusters {
		next := m.DeepCopy()
		if next.Data["kubeconfig"], err = clusterInfo(one.Server, ca); err != nil || next.Data["kubeconfig"] == m.Data["kubeconfig"] {
			return err
		}
		_, err = c.Update(ctx, core.ConfigMaps, next, "")
		return err
	}
	return nil
}

func bind(name, role string, to rbacv1.Subject) resource.Object {
	return &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{to}}
}

// NodeToken makes a bootstrap token by which machines join as nodes for life, and shows them the cluster's authority in
// kube-public/cluster-info, as kubeadm does. server is its address.
func NodeToken(ctx context.Context, c client.Client, server string, ca []byte, life time.Duration) (string, error) {
	if life <= 0 {
		return "", fmt.Errorf("life of a token: %v is not above 0", life)
	}
	info, err := clusterInfo(server, ca)
	if err != nil {
		return "", err
	}
	const reader = "kubeadm:bootstrap-signer-clusterinfo"
	id, secret := letters(6), letters(16)
	public := metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: reader}
	for _, w := range []struct {
		kind resource.Kind
		obj  resource.Object
	}{
		{core.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
			Data: map[string]string{"kubeconfig": info}}},
		{rbac.Roles, &rbacv1.Role{ObjectMeta: public, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"},
				ResourceNames: []string{"cluster-info"}}}}},
		{rbac.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: public,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reader},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: auth.Anonymous}}}},
		{core.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id},
			Type: corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
				"usage-bootstrap-signing": "true",
				"auth-extra-groups":       joinersGroup, "expiration": time.Now().Add(life).UTC().Format(time.RFC3339)}}},
	} {
		if _, err := c.Create(ctx, w.kind, w.obj); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", fmt.Errorf("make a token for nodes: %w", err)
		}
	}
	return id + "." + secret, signed(ctx, c, id)
}

// signed waits until cluster-info is signed with the token: before that nobody can join with it.
func signed(ctx context.Context, c client.Client, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		obj, err := c.Get(ctx, core.ConfigMaps, metav1.NamespacePublic, "cluster-info")
		if err != nil {
			return fmt.Errorf("make a token for nodes: %w", err)
		}
		if m, ok := obj.(*corev1.ConfigMap); ok && m.Data["jws-kubeconfig-"+id] != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the token is made, but cluster-info is not signed with it: does the loop bootstrap-signer run?")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// clusterInfo is a kubeconfig without a user.
func clusterInfo(server string, ca []byte) (string, error) {
	if len(ca) == 0 {
		return "", errors.New("make a token for nodes: the cluster's authority is not known")
	}
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[""] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	text, err := clientcmd.Write(*cfg)
	return string(text), err
}

// letters are n random letters and digits.
func letters(n int) string {
	const from = "abcdefghijklmnopqrstuvwxyz0123456789"
	out := make([]byte, 0, n)
	for buf := make([]byte, 1); len(out) < n; {
		_, _ = rand.Read(buf)                      // never fails
		if int(buf[0]) < 256/len(from)*len(from) { // else the first ones would come more often
			out = append(out, from[int(buf[0])%len(from)])
		}
	}
	return string(out)
}
