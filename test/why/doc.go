// Package why is a public suite of situations in which objects are stuck: situations.yaml makes each for real on a
// cluster with simulated nodes, and says whose move it is, what the cause is and what comes next. kloop must be right about
// all of them.
package why
