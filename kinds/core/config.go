package core

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/kinds/rule"
	"github.com/kloop-dev/kloop/resource"
)

// ConfigMaps declares the kind.
var ConfigMaps = &resource.Def[*v1.ConfigMap]{
	GVK: gvk("ConfigMap"), Plural: "configmaps", Short: []string{"cm"}, Namespaced: true, Validate: validateConfigMap,
	Columns: []resource.Column[*v1.ConfigMap]{
		resource.Col("Data", "string", func(c *v1.ConfigMap) any { return int64(len(c.Data) + len(c.BinaryData)) }),
		resource.Age[*v1.ConfigMap](),
	},
}

// Secrets declares the kind.
var Secrets = &resource.Def[*v1.Secret]{
	GVK: gvk("Secret"), Plural: "secrets", Namespaced: true, Default: defaultSecret, Validate: validateSecret, Warn: warnSecret,
	Select: []resource.Field[*v1.Secret]{{Label: "type", Value: func(s *v1.Secret) string { return string(s.Type) }}},
	Columns: []resource.Column[*v1.Secret]{
		resource.Col("Type", "string", func(s *v1.Secret) any { return string(s.Type) }),
		resource.Col("Data", "string", func(s *v1.Secret) any { return int64(len(s.Data)) }),
		resource.Age[*v1.Secret](),
	},
}

// defaultSecret also moves what was written as text to where it is kept.
func defaultSecret(s *v1.Secret) {
	rule.FillZero(&s.Type, v1.SecretTypeOpaque)
	for k, v := range s.StringData {
		if s.Data == nil {
			s.Data = map[string][]byte{}
		}
		s.Data[k] = []byte(v)
	}
	s.StringData = nil
}

// ServiceAccounts declares the kind.
var ServiceAccounts = &resource.Def[*v1.ServiceAccount]{
	GVK: gvk("ServiceAccount"), Plural: "serviceaccounts", Short: []string{"sa"}, Namespaced: true,
	Ways: resource.Ways{ShowsDeleted: true},
	Warn: warnServiceAccount,
	Connect: []resource.SubInfo{{Name: "token", Verbs: doCreate,
		GVK: schema.GroupVersionKind{Group: "authentication.k8s.io", Version: "v1", Kind: "TokenRequest"}}},
	Columns: []resource.Column[*v1.ServiceAccount]{
		resource.Col("Secrets", "string", func(s *v1.ServiceAccount) any { return int64(len(s.Secrets)) }),
		resource.Age[*v1.ServiceAccount](),
	},
}
