package cli

import (
	"context"
	"fmt"
	"log/slog"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// maxComplaint bounds, in bytes, what is logged of an error that a library could not return.
const maxComplaint = 500

// boundComplaints makes libraries write the errors that they can't return into the log of this process, in one line of bounded
// length. They quote what they were given, which may be megabytes of a request.
func boundComplaints() {
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{complain}
}

func complain(ctx context.Context, err error, msg string, pairs ...any) {
	text := fmt.Sprint(append([]any{err}, pairs...)...)
	if len(text) > maxComplaint {
		text = text[:maxComplaint] + "…"
	}
	slog.WarnContext(ctx, "a library complains", "says", msg, "err", text)
}
