// The data are a module of their own, so that who imports kloop does not fetch them.
module github.com/kloop-dev/kloop/test/oracle/scenarios

go 1.26.8
