%% The wire format of PROTOCOL.md: bytes to requests and answers, and back.
%%
%% Pure: nothing here knows a socket, a process or a store. It must never crash on bytes from a client:
%% whatever is wrong with a frame is a value (`{bad, Id, Text}'), because a bad frame is the client's mistake
%% and not an error of this service.
-module(vsns_frame).

-export([next/2, request/1, answer/2, encode_request/2, decode_answer/2]).
-export_type([id/0, space/0, key/0, value/0, request/0, answer/0]).

-type id() :: 0..16#ffffffff.
-type space() :: binary().
-type key() :: binary().
-type value() :: binary().

-type request() ::
    {save, space(), key(), value()}
    | {load, space(), key()}
    | {remove, space(), key()}
    | {load_all, space(), After :: binary(), Limit :: 1..16#ffff}
    | {remove_all, space()}
    | oops
    | stats
    | ping.

-type answer() ::
    ok
    | {value, value()}
    | {removed, 0 | 1}
    | {page, More :: boolean(), [{key(), value()}]}
    | {count, non_neg_integer()}
    | {text, iodata()}
    | not_found
    | {bad_request, iodata()}
    | {unavailable, iodata()}
    | busy
    | too_large.

-define(SAVE, 1).
-define(LOAD, 2).
-define(REMOVE, 3).
-define(LOAD_ALL, 4).
-define(REMOVE_ALL, 5).
-define(OOPS, 6).
-define(STATS, 7).
-define(PING, 8).

-define(OK, 0).
-define(NOT_FOUND, 1).
-define(BAD_REQUEST, 2).
-define(UNAVAILABLE, 3).
-define(BUSY, 4).
-define(TOO_LARGE, 5).

%% @doc Cuts the first frame off a buffer. `{more, N}': the buffer has to grow to N bytes first.
%% A frame above the limit is reported before it has been read, as soon as its request id is there.
-spec next(binary(), pos_integer()) ->
    {frame, binary(), Rest :: binary()} | {more, pos_integer()} | {too_large, id()}.
next(<<Length:32, Frame:Length/binary, Rest/binary>>, Limit) when Length =< Limit ->
    {frame, Frame, Rest};
next(<<Length:32, Id:32, _/binary>>, Limit) when Length > Limit ->
    {too_large, Id};
next(<<Length:32, _/binary>>, Limit) when Length =< Limit ->
    {more, 4 + Length};
next(<<_Length:32, _/binary>>, _Limit) ->
    {more, 8};
next(_, _) ->
    {more, 4}.

%% @doc Decodes a request frame (without its length).
-spec request(binary()) -> {id(), request()} | {bad, id(), binary()}.
request(<<Id:32, Opcode, Fields/binary>>) ->
    case fields(Opcode, Fields) of
        {bad, Text} -> {bad, Id, Text};
        Request -> {Id, Request}
    end;
request(<<Id:32>>) ->
    {bad, Id, <<"no opcode">>};
request(_) ->
    {bad, 0, <<"no request id">>}.

%% Spaces, keys and values are copied out of the frame. Left as references into the receive buffer a name of
%% ten bytes would keep kilobytes alive, and the memory figures of this service would be about buffers.
-spec fields(byte(), binary()) -> request() | {bad, binary()}.
fields(?SAVE, <<S:16, Space:S/binary, K:16, Key:K/binary, V:32, Value:V/binary>>) when K > 0 ->
    {save, binary:copy(Space), binary:copy(Key), binary:copy(Value)};
fields(?LOAD, <<S:16, Space:S/binary, K:16, Key:K/binary>>) when K > 0 ->
    {load, binary:copy(Space), binary:copy(Key)};
fields(?REMOVE, <<S:16, Space:S/binary, K:16, Key:K/binary>>) when K > 0 ->
    {remove, binary:copy(Space), binary:copy(Key)};
fields(?LOAD_ALL, <<S:16, Space:S/binary, A:16, After:A/binary, Limit:16>>) when Limit > 0 ->
    {load_all, binary:copy(Space), binary:copy(After), Limit};
fields(?REMOVE_ALL, <<S:16, Space:S/binary>>) ->
    {remove_all, binary:copy(Space)};
fields(?OOPS, <<>>) ->
    oops;
fields(?STATS, <<>>) ->
    stats;
fields(?PING, <<>>) ->
    ping;
fields(Opcode, Fields) ->
    {bad, why(Opcode, Fields)}.

-spec why(byte(), binary()) -> binary().
why(Opcode, <<S:16, _:S/binary, 0:16, _/binary>>) when Opcode >= ?SAVE, Opcode =< ?REMOVE ->
    <<"the key is empty">>;
why(?LOAD_ALL, <<S:16, _:S/binary, A:16, _:A/binary, 0:16>>) ->
    <<"limit is 0">>;
why(Opcode, _) when Opcode >= ?SAVE, Opcode =< ?PING ->
    <<"the fields do not fit the opcode">>;
why(Opcode, _) ->
    <<"unknown opcode ", (integer_to_binary(Opcode))/binary>>.

%% @doc Encodes an answer as a whole frame, length included.
-spec answer(id(), answer()) -> iodata().
answer(Id, Answer) ->
    case Answer of
        ok -> <<5:32, Id:32, ?OK>>;
        {value, Value} -> [<<(5 + byte_size(Value)):32, Id:32, ?OK>>, Value];
        {removed, N} -> <<6:32, Id:32, ?OK, N>>;
        {count, N} -> <<9:32, Id:32, ?OK, N:32>>;
        not_found -> <<5:32, Id:32, ?NOT_FOUND>>;
        {page, More, Entries} -> frame(Id, ?OK, page(More, Entries));
        {text, Text} -> frame(Id, ?OK, Text);
        {bad_request, Text} -> frame(Id, ?BAD_REQUEST, Text);
        {unavailable, Text} -> frame(Id, ?UNAVAILABLE, Text);
        busy -> <<5:32, Id:32, ?BUSY>>;
        too_large -> <<5:32, Id:32, ?TOO_LARGE>>
    end.

-spec frame(id(), byte(), iodata()) -> iodata().
frame(Id, Status, Body) ->
    [<<(5 + iolist_size(Body)):32, Id:32, Status>>, Body].

-spec page(boolean(), [{key(), value()}]) -> iodata().
page(More, Entries) ->
    Flag = case More of true -> 1; false -> 0 end,
    [<<Flag, (length(Entries)):32>>
     | [[<<(byte_size(K)):16>>, K, <<(byte_size(V)):32>>, V] || {K, V} <- Entries]].

%% @doc Encodes a request as a whole frame, length included: what a client sends.
-spec encode_request(id(), request()) -> iodata().
encode_request(Id, Request) ->
    Body = request_body(Request),
    [<<(4 + iolist_size(Body)):32, Id:32>>, Body].

-spec request_body(request()) -> iodata().
request_body({save, S, K, V}) -> [?SAVE, text(S), text(K), <<(byte_size(V)):32>>, V];
request_body({load, S, K}) -> [?LOAD, text(S), text(K)];
request_body({remove, S, K}) -> [?REMOVE, text(S), text(K)];
request_body({load_all, S, After, Limit}) -> [?LOAD_ALL, text(S), text(After), <<Limit:16>>];
request_body({remove_all, S}) -> [?REMOVE_ALL, text(S)];
request_body(oops) -> [?OOPS];
request_body(stats) -> [?STATS];
request_body(ping) -> [?PING].

-spec text(binary()) -> iodata().
text(Bytes) -> [<<(byte_size(Bytes)):16>>, Bytes].

%% @doc Decodes an answer frame (without its length) to the request of this operation: an answer does not
%% say which operation it is of. `bad' when it is not one.
-spec decode_answer(Operation :: atom(), binary()) -> {id(), answer()} | bad.
decode_answer(Operation, <<Id:32, ?OK, Body/binary>>) ->
    case ok_body(Operation, Body) of
        bad -> bad;
        Answer -> {Id, Answer}
    end;
decode_answer(_, <<Id:32, ?NOT_FOUND>>) -> {Id, not_found};
decode_answer(_, <<Id:32, ?BAD_REQUEST, Text/binary>>) -> {Id, {bad_request, Text}};
decode_answer(_, <<Id:32, ?UNAVAILABLE, Text/binary>>) -> {Id, {unavailable, Text}};
decode_answer(_, <<Id:32, ?BUSY>>) -> {Id, busy};
decode_answer(_, <<Id:32, ?TOO_LARGE>>) -> {Id, too_large};
decode_answer(_, _) -> bad.

-spec ok_body(atom(), binary()) -> answer() | bad.
ok_body(load, Value) -> {value, Value};
ok_body(stats, Text) -> {text, Text};
ok_body(remove, <<N>>) when N =< 1 -> {removed, N};
ok_body(remove_all, <<N:32>>) -> {count, N};
ok_body(load_all, <<More, Count:32, Entries/binary>>) when More =< 1 ->
    entries(More =:= 1, Count, Entries, []);
ok_body(Operation, <<>>) when Operation =:= save; Operation =:= ping; Operation =:= oops -> ok;
ok_body(_, _) -> bad.

-spec entries(boolean(), non_neg_integer(), binary(), [{key(), value()}]) -> answer() | bad.
entries(More, 0, <<>>, Entries) ->
    {page, More, lists:reverse(Entries)};
entries(More, N, <<K:16, Key:K/binary, V:32, Value:V/binary, Rest/binary>>, Entries) when N > 0 ->
    entries(More, N - 1, Rest, [{Key, Value} | Entries]);
entries(_, _, _, _) ->
    bad.
