package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// ConfigMaps declares the kind.
var ConfigMaps = &resource.Def[*corev1.ConfigMap]{
	GVK: gvk("ConfigMap"), Plural: "configmaps", Short: []string{"cm"}, Namespaced: true,
	Validate: resource.Serving(validateConfigMap),
	Columns: []resource.Column[*corev1.ConfigMap]{
		resource.Col("Data", "string", func(c *corev1.ConfigMap) any { return int64(len(c.Data) + len(c.BinaryData)) }),
		resource.Age[*corev1.ConfigMap](),
	},
}

// Secrets declares the kind.
var Secrets = &resource.Def[*corev1.Secret]{
	GVK: gvk("Secret"), Plural: "secrets", Namespaced: true, Default: defaultSecret,
	Validate: resource.Serving(validateSecret), Warn: resource.Serving(warnSecret),
	Select: []resource.Field[*corev1.Secret]{{Label: "type", Value: func(s *corev1.Secret) string { return string(s.Type) }}},
	Columns: []resource.Column[*corev1.Secret]{
		resource.Col("Type", "string", func(s *corev1.Secret) any { return string(s.Type) }),
		resource.Col("Data", "string", func(s *corev1.Secret) any { return int64(len(s.Data)) }),
		resource.Age[*corev1.Secret](),
	},
}

// defaultSecret also moves what was written as text to where it is kept.
func defaultSecret(s *corev1.Secret) {
	rule.FillZero(&s.Type, corev1.SecretTypeOpaque)
	for k, v := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
}

// ServiceAccounts declares the kind.
var ServiceAccounts = &resource.Def[*corev1.ServiceAccount]{
	GVK: gvk("ServiceAccount"), Plural: "serviceaccounts", Short: []string{"sa"}, Namespaced: true,
	Quirks: resource.Quirks{DeleteReturnsObject: true},
	Prepare: func(a, _ *corev1.ServiceAccount) {
		for i, s := range a.Secrets { // they can only be of its namespace, and have no other version
			a.Secrets[i] = corev1.ObjectReference{Name: s.Name}
		}
	},
	Warn: resource.Serving(warnServiceAccount),
	Connect: []resource.SubInfo{{Name: "token", Verbs: doCreate,
		GVK: schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}}},
	Columns: []resource.Column[*corev1.ServiceAccount]{
		resource.Age[*corev1.ServiceAccount](),
	},
}
