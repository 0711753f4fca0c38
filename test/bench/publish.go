package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// rounds is the number of definitions made beside the many.
const rounds = 5

// published measures how soon one more definition is discovered and described, and how soon it is gone from there.
func (b *bench) published(ctx context.Context) error {
	c, err := b.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	var there, described, gone times
	for i := range rounds {
		group := fmt.Sprintf("round%d.example.com", i)
		body := strings.ReplaceAll(fmt.Sprintf(definition, "thing", "Thing", ""), "bench.example.com", group)
		began := time.Now()
		if _, err := c.do(ctx, call{method: "POST", path: definitionsPath, body: []byte(body)}); err != nil {
			return err
		}
		if err := c.listed(ctx, group, true); err != nil {
			return err
		}
		there = append(there, time.Since(began))
		began = time.Now()
		if _, err := c.do(ctx, call{method: "GET", path: "/openapi/v3/apis/" + group + "/v1"}); err != nil {
			return err
		}
		described = append(described, time.Since(began))
		began = time.Now()
		if _, err := c.do(ctx, call{method: "DELETE", path: definitionsPath + "/things." + group}); err != nil {
			return err
		}
		if err := c.listed(ctx, group, false); err != nil {
			return err
		}
		gone = append(gone, time.Since(began))
	}
	b.figure("one more definition, from its creation until in /apis and /openapi/v3", there.at(0.5), "ms")
	b.figure("one more definition, its OpenAPI document", described.at(0.5), "ms")
	b.figure("one more definition, from its deletion until gone from /apis and /openapi/v3", gone.at(0.5), "ms")
	return nil
}

// listed waits until a group is, or is not, in the lists of groups and of OpenAPI documents.
func (c *conn) listed(ctx context.Context, group string, want bool) error {
	for {
		var groups struct{ Groups []struct{ Name string } }
		var docs struct{ Paths map[string]any }
		if err := c.decode(ctx, call{method: "GET", path: "/apis"}, &groups); err != nil {
			return err
		}
		if err := c.decode(ctx, call{method: "GET", path: "/openapi/v3"}, &docs); err != nil {
			return err
		}
		found := false
		for _, g := range groups.Groups {
			found = found || g.Name == group
		}
		_, documented := docs.Paths["apis/"+group+"/v1"]
		if found == want && documented == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}
