#!/usr/bin/env python3
"""Test sites for the experiments of this folder, and a count of what arrived.

Usage: server.py PORT SITE [--log FILE] [--delay SECONDS]

SITE is shop, boutique, hotels, computers, targets or blazedemo. Each site checks what its users send: session
cookies, tokens of forms, fields that belong together. It answers 4xx if something is wrong, so that an experiment
without failures was understood completely. FILE gets a line of JSON for each request: arrival time in seconds,
connection, session, method, path, query, form and status.
"""

import argparse
import asyncio
import json
import secrets
import time
from urllib.parse import parse_qsl, urlsplit


class Request:
    """A request with its decoded parts."""

    def __init__(self, method, target, headers, body):
        parts = urlsplit(target)
        self.method, self.path, self.headers, self.body = method, parts.path, headers, body
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
        self.form = dict(parse_qsl(body.decode(), keep_blank_values=True)) if is_form else {}
        cookies = (pair.split("=", 1) for pair in headers.get("cookie", "").split("; ") if "=" in pair)
        self.cookies = dict(cookies)


class Site:
    """Sessions by cookie, as most web frameworks keep them: the session is not the first cookie of an answer."""

    def __init__(self):
        self.sessions = {}

    def answer(self, request):
        """Returns status, headers and body."""
        session = self.sessions.get(request.cookies.get("sid"))
        fresh = session is None and self.starts_session(request)
        if fresh:
            name = secrets.token_hex(8)
            session = self.sessions[name] = {"sid": name, "cart": [], "user": None, "token": secrets.token_hex(4)}
        status, headers, body = self.page(request, session)
        if fresh:
            headers = headers + [("Set-Cookie", "lang=en; Path=/"), ("Set-Cookie", f"sid={session['sid']}; Path=/; HttpOnly")]
        return status, headers, body, session

    def starts_session(self, request):
        return request.method == "GET"

    def page(self, request, session):
        return 404, [], "no such page"


USERS = {"ann": "secret", "bob smith": "p&w=2+3%", "čeněk": 'say "no"'}


class Shop(Site):
    """A shop with a log-in form that has a token."""

    def page(self, request, session):
        match request.method, request.path:
            case "GET", "/":
                return 200, [], "<h1>Welcome</h1>"
            case "GET", "/product":
                return (200, [], "a product") if request.query.get("id", "").isdigit() else (400, [], "which product?")
            case "GET", "/login":
                return 200, [], f'<form><input name="csrf" value="{session["token"]}"></form>'
            case "POST", "/login":
                form = request.form
                if session is None or form.get("csrf") != session["token"]:
                    return 403, [], "a wrong token"
                if USERS.get(form.get("user")) != form.get("password"):
                    return 403, [], "a wrong password"
                session["user"] = form["user"]
                return 303, [("Location", "/account")], ""
            case "GET", "/account":
                return (200, [], f"Hello {session['user']}") if session["user"] else (403, [], "log in first")
            case "POST", "/orders":
                is_known = session is not None and session["user"] is not None
                return (201, [], "ordered") if is_known and request.form.get("product") else (403, [], "log in first")
        return 404, [], "no such page"


class Boutique(Site):
    """A boutique with a cart for each session."""

    CARD = {f"credit_card_{part}" for part in ("number", "expiration_month", "expiration_year", "cvv")}
    ORDER = {"email", "street_address", "zip_code", "city", "state", "country"} | CARD

    def page(self, request, session):
        method, path = request.method, request.path
        if session is None:
            return 403, [], "no session"
        if method == "GET" and (path in ("/", "/cart") or path.startswith("/product/")):
            return 200, [], "a page"
        if method == "POST" and path == "/setCurrency" and len(request.form.get("currency_code", "")) == 3:
            return 200, [], "set"
        if method == "POST" and path == "/cart" and request.form.get("product_id"):
            session["cart"].append(request.form["product_id"])
            return 200, [], "added"
        if method == "POST" and path == "/cart/checkout":
            if not session["cart"] or self.ORDER - request.form.keys() or len(request.form["zip_code"]) != 5:
                return 400, [], "nothing to pay for"
            session["cart"].clear()
            return 200, [], "paid"
        return 404, [], "no such page"


class Hotels(Site):
    """Hotels: stays of at least a night, and users whose password belongs to their number."""

    def starts_session(self, request):
        return False

    def page(self, request, session):
        query = request.query
        night = lambda most: 0 < int(query["outDate"].removeprefix("2015-04-")) - int(query["inDate"].removeprefix("2015-04-")) <= most
        login = lambda: query["password"] == query["username"].removeprefix("Cornell_") * 10
        try:
            match request.method, request.path:
                case "GET", "/hotels" if night(15) and 37 < float(query["lat"]) < 39:
                    return 200, [], "hotels"
                case "GET", "/recommendations" if query["require"] in ("dis", "rate", "price"):
                    return 200, [], "recommended"
                case "POST", "/user" if login():
                    return 200, [], "logged in"
                case "POST", "/reservation" if night(5) and login() and 1 <= int(query["hotelId"]) <= 80:
                    return 200, [], "reserved"
        except (KeyError, ValueError):
            pass
        return 400, [], "not understood"


class Computers(Site):
    """A list of computers: searched, browsed and edited."""

    def page(self, request, session):
        match request.method, request.path.split("/")[1:]:
            case "GET", ["computers"]:
                wanted = request.query.get("f")
                link = f'<a href="/computers/{len(wanted)}">{wanted}</a>' if wanted else ""
                return 200, [], f"computers, page {request.query.get('p', '0')} {link}"
            case "GET", ["computers", number] if number.isdigit() or number == "new":
                return 200, [], "a computer"
            case "POST", ["computers"]:
                if request.form.get("name") and request.form.get("introduced", "").count("-") == 2:
                    return 303, [("Location", "/computers")], ""
                return 400, [], "which computer?"
        return 404, [], "no such page"


class Targets(Site):
    """Single requests, with bodies of JSON."""

    def starts_session(self, request):
        return False

    def page(self, request, session):
        if request.method == "GET":
            return 200, [], "found"
        try:
            json.loads(request.body)
        except ValueError:
            return 400, [], "no JSON"
        return 201, [], "made"


class BlazeDemo(Site):
    """Flights: a search, a choice among its results, and a purchase."""

    def page(self, request, session):
        match request.method, request.path:
            case "GET", "/":
                return 200, [], "Welcome to the Simple Travel Agency!"
            case "POST", "/reserve.php" if session and request.form.get("fromPort") and request.form.get("toPort"):
                session["flight"] = str(secrets.randbelow(1000))
                return 200, [], f'<input name="flight" value="{session["flight"]}">'
            case "POST", "/purchase.php" if session and request.form.get("flight") == session.get("flight"):
                return 200, [], "Your flight has been reserved."
        return 400, [], "not understood"


SITES = {"shop": Shop, "boutique": Boutique, "hotels": Hotels, "computers": Computers, "targets": Targets, "blazedemo": BlazeDemo}
REASONS = {200: "OK", 201: "Created", 303: "See Other", 400: "Bad Request", 403: "Forbidden", 404: "Not Found"}


async def read(stream):
    """Reads a request, or returns None at the end of the connection."""
    try:
        head = (await stream.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    body = await stream.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


async def serve(arguments):
    site, connections = SITES[arguments.site](), 0
    log = open(arguments.log, "w", buffering=1, encoding="utf-8") if arguments.log else None

    async def connection(reader, writer):
        nonlocal connections
        connections += 1
        own = connections
        while (request := await read(reader)) is not None:
            arrived = time.monotonic()
            status, headers, body, session = site.answer(request)
            if log:
                row = {"at": arrived, "connection": own, "session": session and session["sid"], "method": request.method}
                row |= {"path": request.path, "query": request.query, "form": request.form, "status": status}
                log.write(json.dumps(row) + "\n")
            if arguments.delay:
                await asyncio.sleep(arguments.delay)
            payload = body.encode()
            lines = [f"HTTP/1.1 {status} {REASONS[status]}", f"Content-Length: {len(payload)}"]
            lines += [f"{name}: {value}" for name, value in headers]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
        writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", arguments.port, backlog=1024)
    async with server:
        await server.serve_forever()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("site", choices=SITES)
    parser.add_argument("--log", help="file for a line of JSON for each request")
    parser.add_argument("--delay", type=float, default=0, help="seconds before each answer")
    try:
        asyncio.run(serve(parser.parse_args()))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
