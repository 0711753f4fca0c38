package cluster

import (
	"fmt"
	"log/slog"

	"github.com/kloop-dev/kloop/features"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/strict"
)

// settle works out which Kubernetes the cluster is.
func (c *Config) settle() error {
	minor, err := features.Parse(c.EmulatedVersion)
	if err != nil {
		return fmt.Errorf("emulated version: %w", err)
	}
	for _, gate := range names(c.Features) {
		if known := features.Known(minor); known[gate] == (features.Gate{}) {
			if near := strict.Meant(gate, names(known)); near != "" {
				return fmt.Errorf("unrecognized feature gate: %s%s", gate, near)
			}
		}
	}
	if c.on, err = features.New(minor, c.Features); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	if err := c.RuntimeConfig.Check(c.kinds()); err != nil {
		return fmt.Errorf("what of the API is served: %w: use GROUP/VERSION, GROUP/VERSION/RESOURCE, api/all, api/ga, api/beta or api/alpha", err)
	}
	return nil
}

// Idle are the gates among the given ones that say other than what kloop does in that version, and have no effect; "": the newest.
func Idle(version string, set map[string]bool) (list []string) {
	minor, err := features.Parse(version)
	if err != nil {
		return nil
	}
	for _, name := range names(set) {
		if g, known := features.Known(minor)[name]; known && g.Does(set[name]) != set[name] {
			list = append(list, name)
		}
	}
	return list
}

// tellIdle warns of gates without an effect.
func (c Config) tellIdle(log *slog.Logger) {
	for _, gate := range Idle(c.EmulatedVersion, c.Features) {
		log.Warn("a feature gate has no effect in kloop", "gate", gate, "asked", c.Features[gate], "is", !c.Features[gate])
	}
}

// kinds are the built-in ones of the program.
func (c Config) kinds() []resource.Kind {
	if c.Kit.Kinds == nil {
		return nil
	}
	return c.Kit.Kinds()
}
