package openapi

import "strings"

// head is the old document but for its paths and definitions.
func (b *builder) head() object {
	return object{
		"swagger": "2.0", "info": b.info(), "consumes": mediaTypes, "produces": mediaTypes,
		"securityDefinitions": object{"BearerToken": object{"type": "apiKey", "name": "authorization", "in": "header",
			"description": "Bearer Token authentication"}},
		"security": []any{object{"BearerToken": []string{}}},
	}
}

// oldRoot is the old form of the schema of a kind.
func oldRoot(s object) object {
	if s[gvkExtension] != nil && s["x-kubernetes-preserve-unknown-fields"] == true {
		s = object{"type": "object", gvkExtension: s[gvkExtension]} // with a field clients would refuse all others
	}
	return oldForm(s)
}

const oldPrefix = "#/definitions/"

func (r *route) v2() object {
	item := object{}
	var shared []any
	for _, name := range r.params {
		p := v2Param(name)
		p["in"], p["required"] = "path", true
		shared = append(shared, p)
	}
	if shared != nil {
		item["parameters"] = shared
	}
	for i := range r.ops {
		item[r.ops[i].method] = r.ops[i].v2(r)
	}
	return item
}

func v2Param(name string) object {
	p := params[name]
	return object{"name": name, "in": "query", "description": p.doc, "type": p.typ, "uniqueItems": true}
}

func (o *operation) v2(r *route) object {
	out := object{"operationId": o.id, "description": o.doc, "tags": []string{o.tag}, "schemes": []string{"https"},
		"consumes": orAny(o.consumes), "produces": o.produces}
	o.extend(out)
	var list []any
	if o.body != "" {
		body := object{"name": "body", "in": "body", "schema": oldForm(ref(o.body))}
		if !o.bodyOptional {
			body["required"] = true
		}
		list = append(list, body)
	}
	for _, name := range o.params {
		if !r.inPath(name) {
			list = append(list, v2Param(name))
		}
	}
	if list != nil {
		out["parameters"] = list
	}
	answers := object{}
	for _, code := range o.codes {
		a := object{"description": codeText[code]}
		if code != "401" {
			a["schema"] = oldForm(outSchema(o.out))
		}
		answers[code] = a
	}
	out["responses"] = answers
	return out
}

// oldForm turns a v3 schema into what v2 can say: references with a text beside them, no defaults, no
// alternatives, no null. What a kind keeps without knowing it has no type, so that clients let it pass.
func oldForm(s object) object {
	out := object{}
	for k, v := range s {
		switch k {
		case "default", "oneOf", "anyOf", "not", "nullable":
		case "$ref":
			out[k] = strings.Replace(v.(string), refPrefix, oldPrefix, 1)
		case "properties":
			props, _ := v.(object)
			made := object{}
			for name, p := range props {
				made[name] = olderAny(p)
			}
			out[k] = made
		case "items", "additionalProperties":
			out[k] = olderAny(v)
		case "allOf":
			if inner := onlyRef(v); inner != "" {
				out["$ref"] = strings.Replace(inner, refPrefix, oldPrefix, 1)
			}
		default:
			out[k] = v
		}
	}
	if s["x-kubernetes-preserve-unknown-fields"] == true || s["nullable"] == true {
		for _, k := range []string{"type", "properties", "items", "additionalProperties", "required"} {
			delete(out, k)
		}
	}
	return out
}

func olderAny(v any) any {
	if s, ok := v.(object); ok {
		return oldForm(s)
	}
	return v
}

// onlyRef returns the reference of a list that holds nothing else.
func onlyRef(v any) string {
	list, ok := v.([]any)
	if !ok || len(list) != 1 {
		return ""
	}
	m, _ := list[0].(object)
	s, _ := m["$ref"].(string)
	return s
}
