package serve

import "net/http"

func (a *api) summary(http.ResponseWriter, *http.Request) error {
	return refusal{http.StatusNotImplemented, "statistics are not supported yet"}
}

func (a *api) resourceMetrics(http.ResponseWriter, *http.Request) error {
	return refusal{http.StatusNotImplemented, "metrics are not supported yet"}
}
