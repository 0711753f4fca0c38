package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// How much the measurements of custom resources make.
const (
	customs     = 20_000
	definitions = 1000
)

// definition declares a kind with rules, as operators do: types, defaults, a list that is a map, expressions.
const definition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"%[1]ss.bench.example.com"},
"spec":{
"group":"bench.example.com","scope":"Namespaced","names":{"plural":"%[1]ss","singular":"%[1]s","kind":"%[2]s"},
  "versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","required":["spec"],
  "properties":{"spec":{"type":"object","required":["engine","replicas"],
"x-kubernetes-validations":[{"rule":"self.minReplicas <= self.replicas && self.replicas <= self.maxReplicas",
  "messageExpression":"'not so many replicas of ' + self.engine"},
{"rule":"!has(self.backup) || self.backup.keep > 0"},{"rule":"self.hosts.all(h, h.port != 22)"},
  {"rule":"self.engine == oldSelf.engine","message":"engine is immutable"}],
"properties":{"engine":{"type":"string","enum":["a","b"]},"replicas":{"type":"integer","minimum":0,"maximum":100},
  "minReplicas":{"type":"integer","default":1},
"maxReplicas":{"type":"integer","default":10},"text":{"type":"string","maxLength":4096},
  "size":{"type":"string","maxLength":20,"x-kubernetes-validations":[{"rule":"quantity(self).isGreaterThan(quantity('0'))"}]},
"backup":{"type":"object","properties":{"keep":{"type":"integer"},"every":{"type":"string","maxLength":20}}},
"labels":{"type":"object","maxProperties":50,"additionalProperties":{"type":"string","maxLength":63}},
"hosts":{"type":"array","maxItems":20,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],
  "items":{"type":"object","required":["name"],
"x-kubernetes-validations":[{"rule":"self.name.matches('^[a-z0-9-]+$')"}],
"properties":{"name":{"type":"string","maxLength":63},"address":{"type":"string","maxLength":63},
  "port":{"type":"integer","default":80}}}}}},
"more":{"type":"object","properties":{%[3]s}},
"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}]}}`

// fields are more properties, which make a definition as large as those of operators: n of some 300 bytes.
func fields(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(
			`"field%03d":{"type":"object","description":"%0120d","properties":{"name":{"type":"string","description":"the name of a thing"},`+
				`"count":{"type":"integer","format":"int32","minimum":0}}}`, i, i))
	}
	return strings.Join(list, ",")
}

// customBody is a custom resource of about 1 KiB as it is sent.
func customBody(i int) string {
	return fmt.Sprintf(
		`{"apiVersion":"bench.example.com/v1","kind":"Database","metadata":{"name":"database-%05[1]d","labels":{"app":"bench","tier":"data"},`+
			`"annotations":{"example.com/owner":"team-%[1]d"}},"spec":{"engine":"a","replicas":3,"size":"10Gi","backup":{"keep":7,"every":"1h"},`+
			`"labels":{"a":"one","b":"two","c":"three"},"hosts":[{"name":"first-%[1]d","address":"10.0.0.1","port":5432},`+
			`{"name":"second-%[1]d","address":"10.0.0.2","port":5432},`+
			`{"name":"third-%[1]d","address":"10.0.0.3"}],"text":"%0400[1]d"}}`, i)
}

// define makes a kind and waits until it is served.
func (b *bench) define(ctx context.Context, singular, kind string) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.do(ctx, call{method: "POST", path: definitionsPath, body: fmt.Appendf(nil, definition, singular, kind, "")}); err != nil {
		return err
	}
	return b.poll(ctx, "GET", "/apis/bench.example.com/v1/"+singular+"s", 0)
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// custom makes custom resources whose kind has rules, and asks what they cost in memory.
func custom(ctx context.Context, b *bench) error {
	ns, remove, err := b.space(ctx)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.define(ctx, "database", "Database"); err != nil {
		return err
	}
	path := "/apis/bench.example.com/v1/namespaces/" + ns + "/databases"
	_, before := b.settled(ctx)
	err = b.measured(ctx, "create custom resources with rules", 64, customs, func(i int) call {
		return call{method: "POST", path: path, body: []byte(customBody(i))}
	})
	if err != nil {
		return err
	}
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	one, err := c.do(ctx, call{method: "GET", path: path + "/database-00000"})
	if err != nil {
		return err
	}
	_, after := b.settled(ctx)
	wire := float64(one) * customs / (1 << 20)
	fmt.Printf("  %d objects of %d bytes: %s MiB on the wire\n", customs, one, number(wire))
	if len(b.processes) > 0 {
		b.figure("custom resources, memory of wire size", (after-before)/wire, "times")
	}
	if err := b.listed(ctx, c, "custom resources", call{method: "GET", path: path, accept: jsonType}); err != nil {
		return err
	}
	return b.measured(ctx, "patch the status of custom resources", 64, customs, func(i int) call {
		return call{method: "PATCH", path: fmt.Sprintf("%s/database-%05d/status", path, i/2), kind: "application/merge-patch+json",
			body: fmt.Appendf(nil, `{"status":{"phase":"Ready","replicas":%d,"conditions":[{"type":"Ready","status":"True","count":%d}]}}`, i%2, i)}
	})
}

// settled is the memory when the server had time to give back what it does not need, which it does some seconds after
// the last work.
func (b *bench) settled(ctx context.Context) (resident, own float64) {
	if len(b.processes) == 0 {
		return 0, 0
	}
	runtime.GC()
	last, calm := 1e9, 0
	for range 30 {
		resident, own = b.memory()
		if own > last-0.2 && own < last+0.2 {
			calm++
		} else {
			calm = 0
		}
		if calm == 5 {
			break
		}
		last = own
		select {
		case <-ctx.Done():
			return resident, own
		case <-time.After(5 * time.Second):
		}
	}
	return resident, own
}

// defined makes many definitions and waits until the last is served.
func defined(ctx context.Context, b *bench) error {
	_, before := b.settled(ctx)
	more := fields(100)
	began, cpu := time.Now(), b.cpu()
	_, _, err := b.storm(ctx, 16, definitions, func(i int) call {
		return declare(i, more)
	})
	if err != nil {
		return err
	}
	stored := time.Since(began)
	if err := b.served(ctx); err != nil {
		return err
	}
	b.figure("definitions, all stored", stored.Seconds(), "s")
	b.figure("definitions, all served", time.Since(began).Seconds(), "s")
	if len(b.processes) > 0 {
		b.figure("definitions, server CPU until then, of each", (b.cpu()-cpu)/definitions*1000, "ms")
	}
	_, after := b.settled(ctx)
	b.figure("definitions, memory of each", (after-before)/definitions, "MiB")
	return b.published(ctx)
}

// declare makes one of the many definitions, with these properties more.
func declare(i int, more string) call {
	return call{method: "POST", path: definitionsPath, body: fmt.Appendf(nil, definition, fmt.Sprintf("kind%04d", i),
		fmt.Sprintf("Kind%04d", i), more)}
}

// served waits until all definitions are discovered and their objects can be listed.
func (b *bench) served(ctx context.Context) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	for i := 0; i < definitions; {
		var refused *codeError
		switch _, err := c.do(ctx, call{method: "GET", path: fmt.Sprintf("/apis/bench.example.com/v1/kind%04ds", i)}); {
		case err == nil:
			i++
			continue
		case !errors.As(err, &refused):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	_, err = c.do(ctx, call{method: "GET", path: "/apis/bench.example.com/v1"})
	return err
}
