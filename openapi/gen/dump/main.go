//go:build ignore

// Command dump writes the schemas that openapi-gen made of the API types: as OpenAPI, and as the merge
// schemas that follow from it, if they are asked for. Usage: dump schemas.json.gz [schema.bin.gz]
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kloop-dev/kloop/apply/schemafile"
	"github.com/kloop-dev/kloop/openapi/gen/defs"
	"github.com/kloop-dev/kloop/openapi/packed"
)

const gvkExtension = "x-kubernetes-group-version-kind"

func main() {
	if err := dump(os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, "dump:", err)
		os.Exit(1)
	}
}

// artefact is the content of schemas.json.gz.
type artefact struct {
	Kinds   map[string]string `json:"kinds"` // group/version/kind to the name of its schema
	Schemas models            `json:"schemas"`
	V2      models            `json:"v2"` // where the old format differs
}

// models are written in an order in which those of one group, and in it of one name, stand together, for they are much alike: what gzip
// remembers is 32 KiB.
type models map[string]*spec.Schema

// MarshalJSON implements json.Marshaler.
func (m models) MarshalJSON() ([]byte, error) {
	last := func(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
	group := func(name string) string {
		rest, _ := strings.CutPrefix(name, "io.k8s.api.")
		own, _, _ := strings.Cut(rest, ".")
		return own
	}
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(strings.Compare(group(a), group(b)), strings.Compare(last(a), last(b)), strings.Compare(a, b))
	})
	out := []byte{'{'}
	for i, name := range names {
		text, err := json.Marshal(m[name])
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, name), ':'), text...)
	}
	return append(out, '}'), nil
}

func dump(openapi string, merge ...string) error {
	names, kinds, err := modelNames()
	if err != nil {
		return err
	}
	out := artefact{Kinds: map[string]string{}, Schemas: models{}, V2: models{}}
	ref := func(name string) spec.Ref { return spec.MustCreateRef("#/components/schemas/" + name) }
	for name, def := range defs.GetOpenAPIDefinitions(ref) {
		s := def.Schema
		if old, ok := s.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			delete(s.Extensions, common.ExtensionV2Schema)
			out.V2[name] = &old
		}
		if gvks := names[name]; len(gvks) > 0 {
			s.AddExtension(gvkExtension, gvks)
			for _, k := range gvks {
				if m := k.(gvk); len(gvks) < 3 { // what every group registers is nobody's own
					out.Kinds[fmt.Sprintf("%s/%s/%s", m["group"], m["version"], m["kind"])] = name
				}
			}
		}
		out.Schemas[name] = util.WrapRefs(&s)
	}
	if err := writeJSON(openapi, out); err != nil || len(merge) == 0 {
		return err
	}
	types, err := schemaconv.ToSchemaFromOpenAPI(out.Schemas, false)
	if err != nil {
		return fmt.Errorf("derive merge schemas: %w", err)
	}
	sort.Slice(types.Types, func(i, j int) bool { return types.Types[i].Name < types.Types[j].Name })
	for _, t := range types.Types {
		if t.Map != nil {
			sort.Slice(t.Map.Fields, func(i, j int) bool { return t.Map.Fields[i].Name < t.Map.Fields[j].Name })
		}
	}
	b, err := schemafile.Encode(&schemafile.File{Types: types.Types, Kinds: kinds})
	if err != nil {
		return err
	}
	return os.WriteFile(merge[0], b, 0o644)
}

type gvk = map[string]any

// modelNames says which kinds each model describes, and which model each proper kind has. A type that many
// groups register, like DeleteOptions, describes many kinds.
func modelNames() (map[string][]any, map[schema.GroupVersionKind]string, error) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensions.AddToScheme, aggregator.AddToScheme} {
		if err := add(all); err != nil {
			return nil, nil, err
		}
	}
	names, kinds := map[string][]any{}, map[schema.GroupVersionKind]string{}
	var list []schema.GroupVersionKind
	for k := range all.AllKnownTypes() {
		list = append(list, k)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].String() < list[j].String() })
	for _, k := range list {
		if k.Version == runtime.APIVersionInternal {
			continue
		}
		name, err := all.ToOpenAPIDefinitionName(k)
		if err != nil {
			return nil, nil, fmt.Errorf("name %s: %w", k, err)
		}
		names[name] = append(names[name], gvk{"group": k.Group, "version": k.Version, "kind": k.Kind})
		if t := all.AllKnownTypes()[k]; !strings.Contains(t.PkgPath(), "apimachinery") && hasMeta(t) {
			kinds[k] = name
		}
	}
	return names, kinds, nil
}

func hasMeta(t reflect.Type) bool {
	_, ok := t.FieldByName("ObjectMeta")
	return ok
}

func writeJSON(path string, v any) error {
	b, err := packed.Pack(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}
