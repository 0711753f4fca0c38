// Package webhook asks another server who a token belongs to and what may be done, by TokenReview and
// SubjectAccessReview, as upstream's webhook modes.
//
//	tokens.go     who
//	authorize.go  what
package webhook

import (
	"time"

	"github.com/kloop-dev/kloop/webhook"
)

// patience is how often a server is asked that can't answer, upstream's.
func patience() webhook.Retries { return webhook.Retries{Tries: tries, Pause: 500 * time.Millisecond} }

const tries = 5
