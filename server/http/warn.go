package httpapi

import (
	"net/http"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// warningBudget bounds the bytes of warning texts in one answer; longer ones are cut at warningCut.
const (
	warningBudget = 4 << 10
	warningCut    = 256
)

// warnings collects the texts for Warning headers, each once.
type warnings struct {
	h    http.Header
	seen map[string]bool
	used int
}

func (ws *warnings) add(text string) {
	if text == "" || ws.seen[text] || ws.used > warningBudget {
		return
	}
	if ws.seen == nil {
		ws.seen = map[string]bool{}
	}
	ws.seen[text] = true
	if ws.used+len(text) > warningBudget && len(text) > warningCut {
		text = text[:warningCut]
	}
	ws.used += len(text)
	if value, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
		ws.h.Add("Warning", value)
	}
}
