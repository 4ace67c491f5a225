// Package httpapitest has complete services for the tests of httpapi and of the packages below it,
// and what these tests share. A [Service] runs in process, and its dependencies fail or wait on
// request. [Service.Do] checks each request and its answer against the OpenAPI document.
package httpapitest
