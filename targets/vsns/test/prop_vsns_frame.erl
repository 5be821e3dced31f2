%% The codec: what is encoded is decoded again, and no bytes whatever crash the decoder.
-module(prop_vsns_frame).
-include_lib("proper/include/proper.hrl").
-export([properties_test_/0]).

%% For EUnit.
properties_test_() ->
    [vsns_probe:property(Name, 1000, Property) ||
        {Name, Property} <- [{"requests round trip", fun prop_requests_round_trip/0},
                             {"answers round trip", fun prop_answers_round_trip/0},
                             {"prefixes ask for more", fun prop_prefixes_ask_for_more/0},
                             {"any bytes are survived", fun prop_any_bytes_are_survived/0}]].

id() -> range(0, 16#ffffffff).
key() -> non_empty(binary()).
request() ->
    oneof([{save, binary(), key(), binary()}, {load, binary(), key()}, {remove, binary(), key()},
           {load_all, binary(), binary(), range(1, 65535)}, {remove_all, binary()}, oops, stats, ping]).
answer() ->
    oneof([{save, ok}, {ping, ok}, {oops, ok}, {load, {value, binary()}}, {load, not_found}, {remove, {removed, range(0, 1)}},
           {remove_all, {count, range(0, 16#ffffffff)}}, {load_all, {page, boolean(), list({binary(), binary()})}},
           {stats, {text, binary()}},
           {operation(), {bad_request, binary()}}, {operation(), {unavailable, binary()}}, {operation(), busy},
           {operation(), too_large}]).
operation() -> oneof([save, load, remove, load_all, remove_all, oops, stats, ping]).

prop_requests_round_trip() ->
    ?FORALL(Requests, list({id(), request()}),
        Requests =:= frames(iolist_to_binary([vsns_frame:encode_request(Id, R) || {Id, R} <- Requests]))).

frames(<<>>) -> [];
frames(Bytes) ->
    {frame, Frame, Rest} = vsns_frame:next(Bytes, 1000000),
    [vsns_frame:request(Frame) | frames(Rest)].

prop_answers_round_trip() ->
    ?FORALL({Id, {Operation, Answer}}, {id(), answer()},
        begin
            {frame, Frame, <<>>} = vsns_frame:next(iolist_to_binary(vsns_frame:answer(Id, Answer)), 1000000),
            {Id, Answer} =:= vsns_frame:decode_answer(Operation, Frame)
        end).

%% Any prefix says how much more it takes, and asks for no less than it has.
prop_prefixes_ask_for_more() ->
    ?FORALL({Id, Request, Cut}, {id(), request(), range(0, 1000)},
        begin
            Bytes = iolist_to_binary(vsns_frame:encode_request(Id, Request)),
            Prefix = binary:part(Bytes, 0, Cut rem byte_size(Bytes)),
            {more, Wanted} = vsns_frame:next(Prefix, 1000000),
            Wanted > byte_size(Prefix) andalso Wanted =< byte_size(Bytes)
        end).

prop_any_bytes_are_survived() ->
    ?FORALL({Bytes, Opcode, Limit, Operation}, {binary(), byte(), range(64, 1000), operation()},
        begin
            _ = vsns_frame:request(Bytes),
            _ = vsns_frame:request(<<1:32, (Opcode rem 10), Bytes/binary>>),
            _ = vsns_frame:next(Bytes, Limit),
            _ = vsns_frame:decode_answer(Operation, Bytes),
            _ = vsns_frame:decode_answer(Operation, <<1:32, 0, Bytes/binary>>),
            true
        end).
