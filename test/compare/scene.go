package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// watched are the places whose objects a course compares: each kind of a namespace once.
func watched(ctx context.Context, s *server) ([]place, error) {
	all, err := places(ctx, s)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{"leases": true, "bindings": true}
	return slices.DeleteFunc(all, func(p place) bool {
		if !p.namespaced || !p.can("list") || seen[p.plural] {
			return true
		}
		seen[p.plural] = true
		return false
	}), nil
}

func (s *server) list(ctx context.Context, path string) []map[string]any {
	got := s.ask(ctx, trial{method: http.MethodGet, path: path}, nil)
	tree, _ := got.body.(map[string]any)
	items, _ := tree["items"].([]any)
	var all []map[string]any
	for _, item := range items {
		if obj, ok := item.(map[string]any); ok {
			all = append(all, obj)
		}
	}
	return all
}

// look reads the objects of a course by kind, without what is of one server alone, in an order of their contents.
func (s *stage) look(ctx context.Context, on *server) map[string][]any {
	raw := map[string][]map[string]any{}
	for _, p := range s.kinds {
		if list := on.list(ctx, p.in(s.ns)); len(list) > 0 {
			raw[p.plural] = list
		}
	}
	for _, path := range s.Also {
		got := on.ask(ctx, trial{method: http.MethodGet, path: strings.ReplaceAll(path, "$ns", s.ns)}, nil)
		if obj, ok := got.body.(map[string]any); ok {
			raw["also"] = append(raw["also"], obj)
		}
	}
	names := generated(raw)
	shown := map[string][]any{}
	for kind, list := range raw {
		for _, obj := range list {
			switch kind {
			case "events":
				obj = eventOf(obj)
			case "endpointslices": // how many pods one write tells of is a matter of time
				delete(obj["metadata"].(map[string]any), "generation")
			}
			shown[kind] = append(shown[kind], plain(settled(obj), names))
		}
		slices.SortFunc(shown[kind], func(a, b any) int { return strings.Compare(string(encode(a)), string(encode(b))) })
		if kind == "events" {
			shown[kind] = slices.CompactFunc(shown[kind], func(a, b any) bool { return string(encode(a)) == string(encode(b)) })
		}
	}
	return shown
}

// generated finds the names and hashes that a server made up, and says what stands for them.
func generated(raw map[string][]map[string]any) *strings.Replacer {
	made := map[string]string{}
	for _, list := range raw {
		for _, obj := range list {
			meta, _ := obj["metadata"].(map[string]any)
			labels, _ := meta["labels"].(map[string]any)
			for _, label := range []string{"pod-template-hash", "controller-revision-hash"} {
				if hash, _ := labels[label].(string); hash != "" {
					made[hash] = "HASH"
				}
			}
			if prefix := word(meta, "generateName"); prefix != "" {
				made[word(meta, "name")] = prefix + "*"
			}
		}
	}
	for _, obj := range raw["controllerrevisions"] {
		name := word(obj, "metadata", "name")
		made[name[strings.LastIndexByte(name, '-')+1:]] = "HASH"
	}
	for name, stands := range made {
		for hash, is := range made {
			if is == "HASH" {
				stands = strings.ReplaceAll(stands, hash, is)
			}
		}
		made[name] = stands
	}
	var pairs []string
	for _, name := range slices.SortedFunc(maps.Keys(made), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) {
		pairs = append(pairs, name, made[name])
	}
	return strings.NewReplacer(pairs...)
}

var (
	address  = regexp.MustCompile(`\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b`)
	someNode = regexp.MustCompile(`\bstage-[a-c]\b`)
	someHash = regexp.MustCompile(`-[0-9bcdf]{8,10}\b`)                  // of a ReplicaSet that is gone
	someName = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`) // of a pod that is gone
	stamp    = regexp.MustCompile(`\b[0-9a-f]{15,16}\b`)
)

// anyOrder are lists whose order says nothing.
var anyOrder = map[string]bool{"conditions": true, "endpoints": true, "addresses": true, "notReadyAddresses": true, "ports": true}

// plain is a tree whose texts hold on both servers.
func plain(v any, names *strings.Replacer) any {
	switch v := v.(type) {
	case map[string]any:
		if list, ok := v["managedFields"].([]any); ok {
			v["managedFields"] = managers(list)
		}
		delete(v, "endpoints.kubernetes.io/last-change-trigger-time") // of the last change that both saw together
		delete(v, "authentication.kubernetes.io/credential-id")       // of the certificate with which this server was asked
		if _, ok := v["ca.crt"].(string); ok {
			v["ca.crt"] = "CA"
		}
		if _, ok := v["zone"].(string); ok {
			v["zone"] = "ZONE"
		}
		if _, ok := v["topology.kubernetes.io/zone"].(string); ok {
			v["topology.kubernetes.io/zone"] = "ZONE"
		}
		for name, one := range maps.Clone(v) {
			if held := ofKey(name, names); held != name {
				delete(v, name)
				name = held
			}
			v[name] = plain(one, names)
			if list, ok := v[name].([]any); ok && anyOrder[name] {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(string(encode(a)), string(encode(b))) })
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = plain(v[i], names)
		}
		return v
	case string:
		v = someNode.ReplaceAllString(address.ReplaceAllString(names.Replace(v), "IP"), "NODE")
		v = someName.ReplaceAllString(someHash.ReplaceAllString(v, "-HASH"), "-*")
		return stamp.ReplaceAllString(v, "STAMP")
	}
	return v
}

// managers are the entries of managed fields by whose they are, for their order is that of time.
func managers(list []any) any {
	all := map[string]any{}
	for _, one := range list {
		all[word(one, "manager")+" "+word(one, "operation")+" "+word(one, "subresource")] = one.(map[string]any)["fieldsV1"]
	}
	return all
}

var (
	uidKey = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	held   = regexp.MustCompile(`^[fkv]:`)
)

// ofKey is a key of managed fields without what is of one server alone.
func ofKey(name string, names *strings.Replacer) string {
	if !held.MatchString(name) {
		return name
	}
	return uidKey.ReplaceAllString(address.ReplaceAllString(names.Replace(name), "IP"), "*")
}

// eventOf keeps what an event says and how it was sent, whatever it counts.
func eventOf(e map[string]any) map[string]any {
	about, _ := e["involvedObject"].(map[string]any)
	by := cmp.Or(word(e, "source", "component"), word(e, "reportingComponent"))
	said := fmt.Sprintf("%s %s/%s %s: %s",
		word(e, "type"), word(about, "kind"), word(about, "name"), word(e, "reason"), word(e, "message"))
	shape := []string{by, word(e, "reportingComponent"), word(e, "action"), word(about, "apiVersion"), word(about, "fieldPath")}
	if related, _ := e["related"].(map[string]any); related != nil {
		shape = append(shape, word(related, "kind")+"/"+word(related, "name"))
	}
	for _, field := range []string{"eventTime", "firstTimestamp"} { // one of the two, by the way in which it was sent
		if e[field] != nil {
			shape = append(shape, field)
		}
	}
	return map[string]any{"event": said, "from": strings.Join(shape, ",")}
}

// scenes adds in what the objects of a kind differ: those that are equal go first, the rest is compared in order.
func scenes(a, b []any, kind string, all *[]string) {
	rest := func(x, y []any) (left []any) {
		count := map[string]int{}
		for _, obj := range y {
			count[string(encode(obj))]++
		}
		for _, obj := range x {
			if key := string(encode(obj)); count[key] > 0 {
				count[key]--
			} else {
				left = append(left, obj)
			}
		}
		return left
	}
	left, right := rest(a, b), rest(b, a)
	if kind == "events" {
		for _, e := range left {
			*all = append(*all, "event missing: "+word(e, "from")+" "+word(e, "event"))
		}
		for _, e := range right {
			*all = append(*all, "event too much: "+word(e, "from")+" "+word(e, "event"))
		}
		return
	}
	if len(left) != len(right) {
		*all = append(*all, fmt.Sprintf("%d → %d %s: %s → %s", len(a), len(b), kind, titles(left), titles(right)))
		return
	}
	for i := range left {
		trees(left[i], right[i], kind, all)
	}
}

func titles(list []any) string {
	var all []string
	for _, obj := range list {
		all = append(all, word(obj, "metadata", "name")+" "+word(obj, "status", "phase"))
	}
	return strings.Join(all, ", ")
}
