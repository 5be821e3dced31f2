%% HTTP by mochiweb: who is let in, the body, the answer. One process per connection.
%%
%% Whether a request is let in is decided before its body is looked at, with one atomic counter, so that a member whose admitted
%% work is stuck still refuses at once. A refused body is read all the same, and thrown away: closing a connection with unread
%% bytes would reset it, and the answer would be lost with it.
-module(docket_http).

-export([child/1, loop/3]).

-define(LARGEST_BODY, 65536).
%% What is read of a body that is too large, so that its sender gets to the answer.
-define(LARGEST_WASTE, 1048576).
-define(BODY_MS, 30000).

%% @doc The listener with its connections, for a supervisor.
-spec child(docket_options:options()) -> supervisor:child_spec().
child(#{host := Host, http_port := Port, admission := Admission}) ->
    Loop = {?MODULE, loop, [docket_options:address(Host), Admission]},
    Options = [{name, ?MODULE}, {ip, Host}, {port, Port}, {loop, Loop}, {nodelay, true},
               %% Beyond `max' a connection is not accepted, and waits in the backlog.
               {max, 16384}, {acceptor_pool_size, 32}, {backlog, 1024},
               %% The kernel sizes its own buffers; this one bounds a line of the head.
               {recbuf, undefined}, {buffer, 8192}],
    #{id => ?MODULE, start => {mochiweb_http, start_link, [Options]}, type => worker}.

%% @doc One request.
-spec loop(term(), Member :: string(), Admission :: non_neg_integer()) -> ok.
loop(Request, Member, Admission) ->
    Method = mochiweb_request:get(method, Request),
    {Path, Query} = target(mochiweb_request:get(raw_path, Request)),
    Bound = case docket_route:is_always_admitted(Path) of true -> 0; false -> Admission end,
    case docket_route:is_always_admitted(Path) orelse docket_tally:enter(Bound) of
        refused ->
            _ = body(Request),
            answer({503, [{"retry-after", "1"}, {"x-refused", "admission"}], "too many requests in flight\n"}, Member, Request);
        true ->
            serve(Method, Path, Query, Member, Request);
        ok ->
            try
                serve(Method, Path, Query, Member, Request)
            after
                docket_tally:leave()
            end
    end.

-spec serve(atom() | string(), [binary()], string(), string(), term()) -> ok.
serve(Method, Path, Query, Member, Request) ->
    case body(Request) of
        {ok, Body} ->
            Head = fun(Name) -> mochiweb_request:get_header_value(Name, Request) end,
            Answer = try
                docket_route:answer(Method, Path, Query, Head, Body)
            catch
                Class:Reason:Stack ->
                    {500, [], io_lib:format("~0tp: ~0tp at ~0tp~n", [Class, Reason, hd(Stack ++ [nowhere])])}
            end,
            answer(Answer, Member, Request);
        {refused, Code, Text} ->
            put(mochiweb_request_force_close, true),
            put(mochiweb_request_recv, true),
            answer({Code, [], [Text, "\n"]}, Member, Request)
    end.

-spec answer(docket_route:answer(), string(), term()) -> ok.
answer({Code, Headers, {pages, First, Next}}, Member, Request) ->
    Response = mochiweb_request:respond({Code, [{"x-member", Member} | Headers], chunked}, Request),
    stream(First, Next, Response);
answer({Code, Headers, Body}, Member, Request) ->
    Typed = case lists:keymember("content-type", 1, Headers) orelse Code =:= 204 of
        true -> Headers;
        false -> [{"content-type", "text/plain; charset=utf-8"} | Headers]
    end,
    _ = mochiweb_request:respond({Code, [{"x-member", Member} | Typed], Body}, Request),
    ok.

-spec stream(iodata(), docket_route:pages(), term()) -> ok.
stream(Page, Next, Response) ->
    _ = [mochiweb_response:write_chunk(Page, Response) || iolist_size(Page) > 0],
    case Next() of
        done ->
            _ = mochiweb_response:write_chunk(<<>>, Response),
            ok;
        broken ->
            %% The head is out already. An answer that breaks off is at least taken for none.
            exit({shutdown, broken});
        {Page2, Next2} ->
            stream(Page2, Next2, Response)
    end.

%% The words of the path, and the query as it came. Words are bytes: what they mean is not known here.
-spec target(term()) -> {[binary()], string()}.
target(Raw) when is_list(Raw) ->
    {Path, Query, _} = mochiweb_util:urlsplit_path(Raw),
    {[list_to_binary(mochiweb_util:unquote(Word)) || Word <- string:split(string:trim(Path, leading, "/"), "/", all)], Query};
target(_) ->
    {[], ""}.

%% The body, or what is wrong with it; then the connection cannot be used any more.
-spec body(term()) -> {ok, binary()} | {refused, 400..413, string()}.
body(Request) ->
    try mochiweb_request:get(body_length, Request) of
        undefined -> {ok, <<>>};
        chunked -> received(Request);
        Length when is_integer(Length), Length < 0 -> {refused, 400, "content-length is negative"};
        Length when is_integer(Length), Length =< ?LARGEST_BODY -> received(Request);
        Length when is_integer(Length) ->
            waste(Length, Request),
            {refused, 413, "a document has at most 65536 bytes"};
        {unknown_transfer_encoding, _} -> {refused, 400, "transfer-encoding is unknown"}
    catch
        error:_ -> {refused, 400, "content-length is not a number"}
    end.

-spec received(term()) -> {ok, binary()} | {refused, 400..413, string()}.
received(Request) ->
    try mochiweb_request:recv_body(?LARGEST_BODY, Request) of
        undefined -> {ok, <<>>};
        Body -> {ok, Body}
    catch
        exit:{body_too_large, _} -> {refused, 413, "a document has at most 65536 bytes"};
        error:_ -> {refused, 400, "the chunks of the body are broken"}
    end.

-spec waste(pos_integer(), term()) -> ok.
waste(Length, Request) when Length =< ?LARGEST_WASTE ->
    %% Who asks before it sends will not send.
    case mochiweb_request:get_header_value("expect", Request) of
        undefined -> waste_all(Length, Request);
        _ -> ok
    end;
waste(_, _) ->
    ok.

-spec waste_all(non_neg_integer(), term()) -> ok.
waste_all(0, _) ->
    ok;
waste_all(Left, Request) ->
    Bytes = mochiweb_request:recv(min(Left, ?LARGEST_BODY), ?BODY_MS, Request),
    waste_all(Left - byte_size(Bytes), Request).
