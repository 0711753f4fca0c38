//go:build ignore

// Command dump writes the schemas that openapi-gen made of the API types: as OpenAPI, and as the merge
// schemas that follow from it. Usage: dump schemas.json.gz schema.bin.gz
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
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
)

const gvkExtension = "x-kubernetes-group-version-kind"

func main() {
	if err := dump(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "dump:", err)
		os.Exit(1)
	}
}

// artefact is the content of schemas.json.gz.
type artefact struct {
	Kinds   map[string]string       `json:"kinds"` // group/version/kind to the name of its schema
	Schemas map[string]*spec.Schema `json:"schemas"`
	V2      map[string]*spec.Schema `json:"v2"` // where the old format differs
}

func dump(openapi, merge string) error {
	names, kinds, err := modelNames()
	if err != nil {
		return err
	}
	out := artefact{Kinds: map[string]string{}, Schemas: map[string]*spec.Schema{}, V2: map[string]*spec.Schema{}}
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
	types, err := schemaconv.ToSchemaFromOpenAPI(out.Schemas, false)
	if err != nil {
		return fmt.Errorf("derive merge schemas: %w", err)
	}
	for _, s := range out.Schemas {
		fillItems(s)
	}
	if err := writeJSON(openapi, out); err != nil {
		return err
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
	return os.WriteFile(merge, b, 0o644)
}

// scalars are models whose values are no JSON objects; they have no default.
var scalars = []string{"api.resource.Quantity", "meta.v1.Time", "meta.v1.MicroTime", "util.intstr.IntOrString", "runtime.RawExtension"}

// fillItems gives what is in lists and maps its zero as default.
//
// Unlike Kubernetes, the schemas say that items of lists and maps have a default, as those up to 1.36 did. It never takes
// effect.
func fillItems(s *spec.Schema) {
	if s == nil {
		return
	}
	if s.Items != nil {
		fillItem(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		fillItem(s.AdditionalProperties.Schema)
	}
	for name, p := range s.Properties {
		fillItems(&p)
		s.Properties[name] = p
	}
}

func fillItem(s *spec.Schema) {
	if s == nil {
		return
	}
	if name := s.Ref.String(); name != "" {
		for _, scalar := range scalars {
			if strings.HasSuffix(name, scalar) {
				return
			}
		}
		inner := *s
		*s = spec.Schema{SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{inner}, Default: map[string]any{}}}
		return
	}
	switch {
	case s.Type.Contains("string") && s.Format == "":
		s.Default = ""
	case s.Type.Contains("integer"):
		s.Default = 0
	case s.Type.Contains("boolean"):
		s.Default = false
	}
	fillItems(s)
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
	var b bytes.Buffer
	zip, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(zip).Encode(v); err != nil {
		return fmt.Errorf("encode schemas: %w", err)
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
