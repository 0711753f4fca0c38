package admission

import (
	"context"
	"time"
)

// ImagePolicy is a server that judges the images of pods.
type ImagePolicy struct {
	Ask          func(ctx context.Context, review, answer any) error
	Allow, Deny  time.Duration // how long verdicts are remembered
	DefaultAllow bool          // when the server can't be asked
}
