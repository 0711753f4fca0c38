package fair

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Pages are upstream's debug pages by their paths: tables with commas.
func (f *Fair) Pages() map[string]http.Handler {
	const at = "/debug/api_priority_and_fairness/"
	page := func(dump func(io.Writer, *http.Request)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			t := tabwriter.NewWriter(w, 8, 0, 1, ' ', 0)
			dump(t, r)
			_ = t.Flush() // the client has gone
		})
	}
	return map[string]http.Handler{at + "dump_priority_levels": page(f.dumpLevels), at + "dump_queues": page(f.dumpQueues),
		at + "dump_requests": page(f.dumpRequests)}
}

func row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = fmt.Sprint(c)
	}
	_, _ = fmt.Fprintln(w, strings.Join(text, ",\t")) // into memory
}

// eachLevel calls dump with every level, locked, in the order of their names.
func (f *Fair) eachLevel(dump func(l *level)) {
	f.mu.Lock()
	list := make([]*level, 0, len(f.levels))
	for _, l := range f.levels {
		list = append(list, l)
	}
	f.mu.Unlock()
	slices.SortFunc(list, func(a, b *level) int { return strings.Compare(a.name, b.name) })
	for _, l := range list {
		l.mu.Lock()
		dump(l)
		l.mu.Unlock()
	}
}

func (f *Fair) dumpLevels(w io.Writer, _ *http.Request) {
	row(w, "PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests", "ExecutingRequests",
		"DispatchedRequests", "RejectedRequests", "TimedoutRequests", "CancelledRequests")
	f.eachLevel(func(l *level) {
		busy := 0
		for _, q := range l.queues {
			if len(q.waits) > 0 {
				busy++
			}
		}
		row(w, l.name, busy, l.waiting+l.running == 0, false, l.waiting, l.running, l.dispatched, l.rejected, l.timedOut, l.cancelled)
	})
}

func (f *Fair) dumpQueues(w io.Writer, _ *http.Request) {
	row(w, "PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse", "NextDispatchR",
		"InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum")
	f.eachLevel(func(l *level) {
		for i, q := range l.queues {
			row(w, l.name, i, len(q.waits), q.running, q.used, fmt.Sprintf("%.8fss", q.nextR), q.wanted, q.wanted,
				fmt.Sprintf("%.8fss", float64(q.wanted)*l.guess))
		}
	})
}

// dumpRequests lists what waits.
//
// Unlike Kubernetes, the dump of requests leaves out those that are being served: nothing else needs a list of them.
func (f *Fair) dumpRequests(w io.Writer, r *http.Request) {
	details := r.URL.Query().Get("includeRequestDetails") != ""
	head := []any{"PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue", "FlowDistingsher", "ArriveTime",
		"InitialSeats", "FinalSeats", "AdditionalLatency", "StartTime"}
	if details {
		head = append(head, "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
	}
	row(w, head...)
	f.eachLevel(func(l *level) {
		for i, q := range l.queues {
			for j, x := range q.waits {
				cells := []any{l.name, x.s.flow.schema, i, j, x.s.distinguisher(), x.since.UTC().Format(time.RFC3339Nano),
					x.t.seats, 0, "0s", time.Time{}.Format(time.RFC3339Nano)}
				if a := x.s.by; details {
					cells = append(cells, a.User.Name, a.Verb, a.Path, a.Namespace, a.Name,
						strings.TrimPrefix(a.Group+"/"+a.Version, "/"), a.Resource, a.Subresource)
				}
				row(w, cells...)
			}
		}
	})
}
