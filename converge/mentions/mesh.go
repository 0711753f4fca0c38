package mentions

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/resource"
)

// Istio's objects have no status that tells of what they name and that is not there, and name it in ways of their own: a gateway's
// certificate lies beside the pods that serve it, a host is that of a service as DNS has it, a subset stands in a DestinationRule.

const mesh = "networking.istio.io"

// meshed notes what an object of Istio's names.
func (s *Search) meshed(tree map[string]any) {
	if s.Kind.Info().GVK.Group != mesh {
		return
	}
	spec, _ := tree["spec"].(map[string]any)
	switch s.Kind.Info().GVK.Kind {
	case "Gateway":
		s.certified(spec)
	case "VirtualService":
		gateways, _ := spec["gateways"].([]any)
		for _, g := range gateways {
			text, _ := g.(string)
			ns, name, placed := strings.Cut(text, "/")
			if !placed {
				ns, name = s.Obj.GetNamespace(), text
			}
			if name != "mesh" {
				s.add("spec.gateways", s.KindsBy("Gateway", mesh, "", true), map[string]any{"namespace": ns}, name)
			}
		}
		for _, protocol := range []string{"http", "tcp", "tls"} {
			s.routed("spec."+protocol, spec[protocol], 0)
		}
	case "DestinationRule":
		s.hosted("spec.host", spec)
	}
}

// certified notes the certificates of a gateway, in the namespace of the pods that it selects.
func (s *Search) certified(spec map[string]any) {
	sel, _ := spec["selector"].(map[string]any)
	want := labels.Set{}
	for key := range sel {
		want[key] = words.String(sel, key)
	}
	pods, known := s.Kinds.GR(schema.GroupResource{Resource: "pods"})
	if len(want) == 0 || !known || !s.Sees(pods, "") {
		return
	}
	var in []string
	for p := range s.Read.Each(pods, "") {
		if ns := p.GetNamespace(); want.AsSelector().Matches(labels.Set(p.GetLabels())) && !slices.Contains(in, ns) {
			in = append(in, ns)
		}
	}
	servers, _ := spec["servers"].([]any)
	for _, item := range servers {
		server, _ := item.(map[string]any)
		tls, _ := server["tls"].(map[string]any)
		for _, ns := range in {
			s.add("spec.servers.tls.credentialName", s.KindsBy("Secret", "", "", true), map[string]any{"namespace": ns},
				words.String(tls, "credentialName"))
		}
	}
}

// routed notes the destinations of a route.
func (s *Search) routed(path string, v any, depth int) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			s.routed(path, item, depth+1)
		}
	case map[string]any:
		for _, field := range []string{"route", "mirror", "mirrors", "destination"} {
			if depth < 8 && v[field] != nil {
				s.routed(path+"."+field, v[field], depth+1)
			}
		}
		if words.String(v, "host") != "" {
			s.hosted(path+".host", v)
		}
	}
}

// hosted notes the service that a host is, its port, and the subset that is asked of it. A host of another kind of name may be anybody's.
func (s *Search) hosted(path string, v map[string]any) {
	name, ns := words.String(v, "host"), s.Obj.GetNamespace()
	if parts := strings.Split(name, "."); len(parts) > 2 && parts[2] == "svc" {
		name, ns = parts[0], parts[1]
	}
	if strings.ContainsAny(name, ".*") || len(s.Found) >= converge.MaxLooks {
		return
	}
	at := map[string]any{"namespace": ns}
	if port, _ := v["port"].(map[string]any); port["number"] != nil {
		at["port"] = port["number"]
	}
	n := len(s.Found)
	s.add(path, s.KindsBy("Service", "", "", true), at, name)
	if subset := words.String(v, "subset"); subset != "" && len(s.Found) > n && s.Found[n].Obj != nil && s.Found[n].Part == "" {
		s.ruled(&s.Found[n], subset)
	}
}

// ruled says that no rule of a service's has the subset, if that can be known.
func (s *Search) ruled(m *Mention, subset string) {
	for _, k := range s.KindsBy("DestinationRule", mesh, "", true) {
		if !s.Sees(k, "") {
			return
		}
		var has []string
		for obj := range s.Read.Each(k, "") {
			has = append(has, subsetsOf(obj, m.NS, m.Name)...)
		}
		if !slices.Contains(has, subset) {
			m.Part, m.has = "the subset "+subset, has
			m.Help = "have a destinationrule of that host declare it: kubectl get " + k.Info().GR().String() + " -n " + m.NS
		}
	}
}

// subsetsOf are those that a DestinationRule makes of a service.
func subsetsOf(obj resource.Object, ns, service string) (names []string) {
	tree, _ := words.Tree(obj)
	spec, _ := tree["spec"].(map[string]any)
	host := words.String(spec, "host")
	if (host != service || obj.GetNamespace() != ns) && host != service+"."+ns && !strings.HasPrefix(host, service+"."+ns+".") {
		return nil
	}
	list, _ := spec["subsets"].([]any)
	for _, item := range list {
		one, _ := item.(map[string]any)
		names = append(names, words.String(one, "name"))
	}
	return names
}
