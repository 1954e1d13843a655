"""HTTP: the application, checks of every request, limits on bytes, the web page.

app                     the endpoints
requests, queries       schemas of bodies and of parameters
schemas, describing     schemas of responses; the OpenAPI document
problems                errors as problem documents
middleware              checks that apply to every request: capacity, host, token
protocol, pieces, received    limits on bytes and time; how much of a request has arrived
page_files, page/       the web page
"""
