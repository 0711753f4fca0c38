package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

const (
	jsonType      = "application/json"
	mergeType     = "application/merge-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	patchType     = "application/json-patch+json"
	applyType     = "application/apply-patch+yaml"
	tableType     = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// changes are questions about what is there.
func (p *plan) changes(ctx context.Context, all []stored) []trial {
	var trials []trial
	for _, s := range all {
		if s.place.can("update") && p.wanted(s.place, "update") {
			list := p.some("update "+s.path, mutations(p.schemas[s.place.gvk], s.a))
			for j, change := range list {
				t := trial{kind: s.place.gvk.Kind, verb: "update", method: "PUT", content: jsonType}
				t.path = s.path + "?dryRun=All&fieldManager=compare" + []string{"", "&fieldValidation=Strict"}[j%2]
				trials = append(trials, t.with(change, s.a, s.b))
			}
			if p.wanted(s.place, "patch") {
				trials = append(trials, p.patches(s)...)
			}
			if p.wanted(s.place, "directive") {
				trials = append(trials, p.directives(s)...)
			}
		}
		for _, u := range s.place.subs {
			if p.wanted(s.place, u.name) {
				trials = append(trials, p.below(ctx, s, u)...)
			}
		}
		if s.place.can("delete") && p.wanted(s.place, "delete") {
			trials = append(trials, deletions(s)...)
		}
		if p.wanted(s.place, "read") {
			trials = append(trials, p.reads(s)...)
		}
		if p.wanted(s.place, "list") {
			trials = append(trials, lists(s)...)
		}
	}
	return trials
}

// patches send a mutation as each sort of patch in turn.
func (p *plan) patches(s stored) []trial {
	var trials []trial
	for j, change := range p.some("patch "+s.path, mutations(p.schemas[s.place.gvk], s.a)) {
		t := trial{kind: s.place.gvk.Kind, method: "PATCH", path: s.path + "?dryRun=All&fieldManager=other"}
		t = t.with(change, nil, nil)
		m := change[0]
		switch j % 5 {
		case 0:
			t.verb, t.content, t.bodyA = "json patch", patchType, encode([]any{m.operation()})
		case 1:
			t.verb, t.content = "merge patch", mergeType
		case 2:
			t.verb, t.content = "strategic patch", strategicType
		case 3, 4:
			t.verb, t.content = "apply", applyType
			if j%5 == 3 {
				t.path += "&force=true"
			}
			bare := map[string]any{"apiVersion": s.a["apiVersion"], "kind": s.a["kind"]}
			t.bodyA = encode(m.apply(bare))
		}
		if m.unset && j%5 != 0 {
			t.bodyA = encode(mutation{path: m.path}.apply(map[string]any{}))
		}
		t.bodyB = t.bodyA
		trials = append(trials, t)
	}
	return trials
}

// directives send strategic merge patches that do more than set values.
func (p *plan) directives(s stored) []trial {
	var trials []trial
	of := p.schemas[s.place.gvk]
	onA, onB := p.some("directive "+s.path, directives(of, s.a)), p.some("directive "+s.path, directives(of, s.b))
	for i := range min(len(onA), len(onB)) {
		t := trial{kind: s.place.gvk.Kind, verb: "directive", method: "PATCH", content: strategicType,
			path: s.path + "?dryRun=All&fieldManager=other"}
		body := t.with(onB[i], map[string]any{}, map[string]any{}).bodyB // keys that each made up, as of volumes
		t = t.with(onA[i], map[string]any{}, map[string]any{})
		t.bodyB = body
		trials = append(trials, t)
	}
	return trials
}

// operation is the mutation as one of a JSON patch.
func (m mutation) operation() map[string]any {
	var path strings.Builder
	for _, at := range m.path {
		path.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(fmt.Sprint(at)))
	}
	if m.unset {
		return map[string]any{"op": "remove", "path": path.String()}
	}
	return map[string]any{"op": "add", "path": path.String(), "value": m.value}
}

// below are questions for a subresource.
func (p *plan) below(ctx context.Context, s stored, u sub) []trial {
	of, path := p.schemas[u.kind], s.path+"/"+u.name
	if of == nil || u.name == "finalize" && s.place.plural != "namespaces" {
		return nil
	}
	var trials []trial
	if slices.Contains(u.verbs, "update") {
		a, _ := p.pair.a.ask(ctx, trial{method: "GET", path: path}, nil).body.(map[string]any)
		b, _ := p.pair.b.ask(ctx, trial{method: "GET", path: path}, nil).body.(map[string]any)
		all := mutations(of, a)
		if u.kind == s.place.gvk && u.name == "status" {
			all = statusMutations(of, a)
		}
		for j, change := range p.some(u.name+" "+s.path, all) {
			t := trial{kind: s.place.gvk.Kind, verb: u.name, method: "PUT", content: jsonType, path: path + "?dryRun=All"}
			t = t.with(change, a, b)
			if j%5 == 4 && slices.Contains(u.verbs, "patch") {
				t.verb, t.method, t.content = u.name+" patch", "PATCH", []string{mergeType, strategicType, applyType}[j/5%3]
				var bare any
				if t.content == applyType {
					bare = map[string]any{"apiVersion": word(a, "apiVersion"), "kind": word(a, "kind")}
					t.path += "&fieldManager=other" + []string{"", "&force=true"}[j/15%2]
				}
				t = t.with(change, bare, bare)
			}
			trials = append(trials, t)
		}
	}
	if slices.Contains(u.verbs, "create") {
		seed := map[string]any{"apiVersion": strings.TrimPrefix(u.kind.Group+"/"+u.kind.Version, "/"), "kind": u.kind.Kind,
			"metadata": map[string]any{"name": word(s.a, "metadata", "name")}}
		for _, change := range p.some(u.name+" "+s.path, mutations(of, seed)) {
			t := trial{kind: s.place.gvk.Kind, verb: u.name, method: "POST", content: jsonType, path: path + "?dryRun=All"}
			trials = append(trials, t.with(change, seed, seed))
		}
	}
	return trials
}

// statusMutations change the status of an object, and some of the rest.
func statusMutations(of *schema, tree any) []mutation {
	have, _ := tree.(map[string]any)
	m := &mutator{}
	m.walk(of.child(of.Properties["status"]), have["status"], []any{"status"}, 0)
	all := m.all
	for i, one := range mutations(of, tree) {
		if i%20 == 0 {
			all = append(all, one)
		}
	}
	return all
}

// deletions name preconditions and policies that hold or not.
func deletions(s stored) []trial {
	var trials []trial
	for what, options := range map[string]string{
		"plain": `{}`, "uid": `{"preconditions":{"uid":"0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b"}}`, "grace": `{"gracePeriodSeconds":5}`,
		"revision": `{"preconditions":{"resourceVersion":"1"}}`, "no grace": `{"gracePeriodSeconds":0}`, "negative": `{"gracePeriodSeconds":-5}`,
		"foreground": `{"propagationPolicy":"Foreground"}`, "orphan": `{"propagationPolicy":"Orphan"}`, "bad policy": `{"propagationPolicy":"X"}`,
		"both": `{"propagationPolicy":"Orphan","orphanDependents":true}`, "old orphan": `{"orphanDependents":true}`,
		"bad dry run": `{"dryRun":["Some"]}`, "unknown": `{"bogus":1}`, "other kind": `{"kind":"Pod","apiVersion":"v1"}`,
		"break": `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`,
	} {
		if !strings.Contains(options, "dryRun") { // in the body: the query's is not heard if there is one
			options = strings.Replace(strings.Replace(options, "{", `{"dryRun":["All"],`, 1), ",}", "}", 1)
		}
		trials = append(trials, trial{kind: s.place.gvk.Kind, verb: "delete", what: what, method: "DELETE", content: jsonType, path: s.path,
			bodyA: []byte(options), bodyB: []byte(options)})
	}
	slices.SortFunc(trials, func(a, b trial) int { return strings.Compare(a.what, b.what) })
	return trials
}

// reads ask for tables and select by every field.
func (p *plan) reads(s stored) []trial {
	collection := s.path[:strings.LastIndexByte(s.path, '/')]
	trials := []trial{
		{kind: s.place.gvk.Kind, verb: "table", method: "GET", path: s.path, accept: tableType},
		{kind: s.place.gvk.Kind, verb: "table", what: "of all, whole", method: "GET", path: collection + "?includeObject=None",
			accept: tableType},
	}
	fields := map[string]bool{"metadata.name": true, "metadata.namespace": true, "name": true, "": true}
	for _, m := range mutations(p.schemas[s.place.gvk], s.a) {
		if len(m.path) <= 3 && !strings.Contains(m.field(), "[]") {
			fields[m.field()] = true
		}
	}
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		trials = append(trials, trial{kind: s.place.gvk.Kind, verb: "select", field: f, what: "by field", method: "GET",
			path: collection + "?fieldSelector=" + url.QueryEscape(f+"=x")})
	}
	return trials
}
