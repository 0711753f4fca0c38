package batch

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// What is wrong with a Job's status is told as Kubernetes 1.37 tells it: the words, and their order, are those of its API server.
func TestJobStatusSays(t *testing.T) {
	const ended = `"startTime":"2024-01-01T00:00:00Z","completionTime":"2024-01-02T00:00:00Z"`
	const early = `cannot set completionTime when there is no Complete=True condition`
	conditions := func(types ...string) string {
		for i, c := range types {
			types[i] = `{"type":"` + c + `","status":"True"}`
		}
		return `"conditions":[` + strings.Join(types, ",") + `]`
	}
	complete := ended + `,"failed":3,"succeeded":4,` + conditions("Complete", "SuccessCriteriaMet")
	for _, test := range []struct {
		name, was, is string
		indexed       bool
		want          []string
	}{
		{name: "complete with nothing that goes with it", is: conditions("Complete"), want: []string{
			`status.completionTime: Required value: completionTime is required for Complete jobs`,
			`status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition`,
			`status.startTime: Required value: startTime is required for finished job`}},
		{name: "failed with pods left", is: `"active":2,"ready":3,"terminating":1,"uncountedTerminatedPods":{"succeeded":["a"]},` +
			`"completionTime":"2024-01-01T00:00:00Z","completedIndexes":"0","failedIndexes":"0",` + conditions("Failed"), want: []string{
			`status.completionTime: Invalid value: "2024-01-01T00:00:00Z": ` + early,
			`status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition`,
			`status.active: Invalid value: 2: active>0 is invalid for finished job`,
			`status.startTime: Required value: startTime is required for finished job`,
			`status.uncountedTerminatedPods: Invalid value: {"Succeeded":["a"],"Failed":null}: must be empty for finished job`,
			`status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode`,
			`status.failedIndexes: Invalid value: "0": cannot set non-null failedIndexes when backoffLimitPerIndex is null`,
			`status.failedIndexes: Invalid value: "0": failedIndexes and completedIndexes overlap at index: 0`,
			`status.terminating: Invalid value: 1: terminating>0 is invalid for finished job`,
			`status.ready: Invalid value: 3: cannot set more ready pods than active`}},
		{name: "all ends at once", is: conditions("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"), want: []string{
			`status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions`,
			`status.conditions: Invalid value: cannot set Complete=True and FailureTarget=true conditions`,
			`status.completionTime: Required value: completionTime is required for Complete jobs`,
			`status.startTime: Required value: startTime is required for finished job`,
			`status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions`,
			`status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and FailureTarget=true conditions`}},
		{name: "an end of each kind, unannounced", is: conditions("Complete", "Failed"), want: []string{
			`status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions`,
			`status.completionTime: Required value: completionTime is required for Complete jobs`,
			`status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition`,
			`status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition`,
			`status.startTime: Required value: startTime is required for finished job`}},
		{name: "another end afterwards", was: complete, is: `"failed":1,"succeeded":1,"startTime":"2024-01-03T00:00:00Z",` +
			`"completionTime":"2024-01-02T10:00:00Z",` + conditions("Failed"), want: []string{
			`status.completionTime: Invalid value: "2024-01-02T10:00:00Z": ` + early,
			"status.completionTime: Invalid value: \"2024-01-02T10:00:00Z\": must be equal to or after `startTime`",
			`status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition`,
			`status.conditions: Invalid value: cannot disable the terminal Complete=True condition`,
			`status.failed: Invalid value: 1: cannot decrease the failed counter`,
			`status.succeeded: Invalid value: 1: cannot decrease the succeeded counter`,
			`status.completionTime: Invalid value: "2024-01-02T10:00:00Z": field is immutable`,
			`status.startTime: Invalid value: "2024-01-03T00:00:00Z": field is immutable for unsuspended job once set`,
			`status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition`}},
		{name: "a failure taken back", was: `"startTime":"2024-01-01T00:00:00Z",` + conditions("FailureTarget", "Failed"), want: []string{
			`status.conditions: Invalid value: cannot disable the terminal Failed=True condition`,
			`status.conditions: Invalid value: cannot disable the terminal FailureTarget=True condition`,
			`status.startTime: Invalid value: null: field is immutable for unsuspended job once set`}},
		{name: "success with a failure", indexed: true, is: `"active":1,"ready":2,"terminating":3,` +
			`"completedIndexes":"0-1","failedIndexes":"1,2",` + conditions("SuccessCriteriaMet", "Failed"), want: []string{
			`status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition`,
			`status.active: Invalid value: 1: active>0 is invalid for finished job`,
			`status.startTime: Required value: startTime is required for finished job`,
			`status.failedIndexes: Invalid value: "1,2": failedIndexes and completedIndexes overlap at index: 1`,
			`status.terminating: Invalid value: 3: terminating>0 is invalid for finished job`,
			`status.ready: Invalid value: 2: cannot set more ready pods than active`,
			`status.conditions: Invalid value: cannot set SuccessCriteriaMet=True and Failed=true conditions`}},
		{name: "lists that are none", indexed: true, is: `"completedIndexes":"9-","failedIndexes":"y"`, want: []string{
			`status.completedIndexes: Invalid value: "9-": error parsing completedIndexes: too large index: "9"`,
			`status.failedIndexes: Invalid value: "y": error parsing failedIndexes: cannot convert string to integer for index: "y"`}},
		{name: "another time of completion", was: complete, is: strings.Replace(complete, "02T", "03T", 1), want: []string{
			`status.completionTime: Invalid value: "2024-01-03T00:00:00Z": field is immutable`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, err := range validateJobStatus(jobWith(t, test.is, test.indexed), jobWith(t, test.was, test.indexed)) {
				got = append(got, err.Error())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// jobWith has four completions.
func jobWith(t *testing.T, status string, indexed bool) *batchv1.Job {
	t.Helper()
	spec := `{"completions":4}`
	if indexed {
		spec = `{"completions":4,"completionMode":"Indexed","backoffLimitPerIndex":4}`
	}
	j := &batchv1.Job{}
	if err := json.Unmarshal([]byte(`{"spec":`+spec+`,"status":{`+status+`}}`), j); err != nil {
		t.Fatal(err)
	}
	return j
}
