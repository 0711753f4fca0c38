// Package health judges objects: is one what it should be, from its status and what there is beside it? Built-in kinds have rules of their
// own that agree with kstatus; what users define is judged by generation, conditions, words and parts.
package health

import (
	"fmt"

	"github.com/kloop-dev/kloop/converge"
)

// short words a shortage: how many of the wanted there are.
func short(wantField string, want int32, haveField string, have int32, what string) converge.Health {
	return converge.Health{Says: fmt.Sprintf("has %d of %d %s", have, want, what), Want: fmt.Sprintf("%s=%d", wantField, want),
		Have: fmt.Sprintf("%s=%d", haveField, have)}
}
