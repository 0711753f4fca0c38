package httpapi

import (
	"net/http"
	"slices"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// warningBudget bounds the characters of warning texts in one answer: when there are more, each is cut at warningCut, and what
// does not fit then is left out.
const (
	warningBudget = 4 << 10
	warningCut    = 256
)

// warnings collects the texts for Warning headers, each once.
type warnings struct {
	h     http.Header
	texts []string
	used  int
	short bool // texts are cut
}

func (ws *warnings) add(text string) {
	if text == "" || ws.short && ws.used >= warningBudget || slices.Contains(ws.texts, text) {
		return
	}
	ws.texts = append(ws.texts, text)
	if ws.short || ws.used+utf8.RuneCountInString(text) <= warningBudget {
		ws.write(text)
		return
	}
	ws.short, ws.used = true, 0
	ws.h.Del("Warning")
	for _, t := range ws.texts {
		ws.write(t)
	}
}

func (ws *warnings) write(text string) {
	if r := []rune(text); ws.short && len(r) > warningCut {
		text = string(r[:warningCut])
	}
	if value, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
		ws.used += utf8.RuneCountInString(text)
		ws.h.Add("Warning", value)
	}
}
