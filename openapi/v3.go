package openapi

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kloop-dev/kloop/internal/coldsort"
)

// object is a JSON object under construction.
type object = map[string]any

const gvkExtension = "x-kubernetes-group-version-kind"

// info tells the version that the cluster emulates: 1.37.
func (b *builder) info() object { return object{"title": "Kubernetes", "version": b.on.String()} }

// v3Document puts the document of one group version together.
func (b *builder) v3Document(routes []route, schemas map[string]json.RawMessage) object {
	paths := object{}
	for i := range routes {
		paths[routes[i].path] = routes[i].v3()
	}
	parts, about := object{}, object{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}
	if !b.defined {
		about = b.info()
		parts["securitySchemes"] = object{"BearerToken": object{"type": "apiKey", "name": "authorization", "in": "header",
			"description": "Bearer Token authentication"}}
	}
	if len(schemas) > 0 {
		parts["schemas"] = schemas
	}
	return object{"openapi": "3.0.0", "info": about, "paths": paths, "components": parts}
}

func (r *route) v3() object {
	item := object{}
	var list []object
	for _, name := range r.params {
		p := v3Param(name)
		p["in"], p["required"] = "path", true
		list = append(list, p)
	}
	shared := r.shared()
	for _, name := range shared {
		list = append(list, v3Param(name))
	}
	if list != nil {
		coldsort.StableFunc(list, func(a, b object) int { return strings.Compare(a["name"].(string), b["name"].(string)) })
		item["parameters"] = list
	}
	for i := range r.ops {
		item[r.ops[i].method] = r.ops[i].v3(shared)
	}
	return item
}

// shared lists the query parameters that all operations of a path have: they stand once.
func (r *route) shared() (list []string) {
	for _, name := range r.ops[0].params {
		if !slices.ContainsFunc(r.ops, func(o operation) bool { return !slices.Contains(o.params, name) }) {
			list = append(list, name)
		}
	}
	return list
}

func v3Param(name string) object {
	p := params[name]
	return object{"name": name, "in": "query", "description": p.doc, "schema": object{"type": p.typ, "uniqueItems": true}}
}

func (o *operation) v3(shared []string) object {
	out := object{"operationId": o.id, "description": o.doc, "tags": []string{o.tag}}
	o.extend(out)
	var query []any
	for _, name := range o.params {
		if !slices.Contains(shared, name) {
			query = append(query, v3Param(name))
		}
	}
	if query != nil {
		out["parameters"] = query
	}
	if o.body != "" {
		content := object{}
		for _, t := range orAny(o.consumes) {
			content[t] = object{"schema": ref(o.body)}
		}
		out["requestBody"] = object{"content": content}
		if !o.bodyOptional {
			out["requestBody"].(object)["required"] = true
		}
	}
	out["responses"] = o.responses3()
	return out
}

// extend adds the extensions that clients go by.
func (o *operation) extend(out object) {
	if o.action != "" {
		out["x-kubernetes-action"] = o.action
	}
	if o.gvk != (schema.GroupVersionKind{}) {
		out[gvkExtension] = gvkObject(o.gvk)
	}
}

func gvkObject(gvk schema.GroupVersionKind) object {
	return object{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}

var codeText = map[string]string{"200": "OK", "201": "Created", "202": "Accepted", "401": "Unauthorized"}

func (o *operation) responses3() object {
	out := object{}
	for _, code := range o.codes {
		resp := object{"description": codeText[code]}
		if code != "401" {
			content := object{}
			for _, t := range o.produces {
				content[t] = object{"schema": outSchema(o.out)}
			}
			resp["content"] = content
		}
		out[code] = resp
	}
	return out
}

func outSchema(name string) object {
	if name == "" {
		return object{"type": "string"}
	}
	return ref(name)
}

func ref(name string) object { return object{"$ref": refPrefix + name} }

func orAny(types []string) []string {
	if types == nil {
		return []string{"*/*"}
	}
	return types
}
